import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/** A node of OpenSearch with its HTTP API on a free port. It runs until its standard input ends. */
final class OpenSearchNode {
    private static final class Embedded extends Node {
        Embedded(Settings settings) {
            super(
                InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "node"),
                List.of(Netty4Plugin.class),
                false);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Settings settings = Settings.builder()
            .put("path.home", Path.of(arguments[0]).toString())
            .put("cluster.name", "tests")
            .put("node.name", "node")
            .put("discovery.type", "single-node")
            .put("transport.type", "netty4")
            .put("http.type", "netty4")
            .put("http.port", "0")
            .put("transport.port", "0")
            .put("network.host", "127.0.0.1")
            .put("cluster.routing.allocation.disk.threshold_enabled", "false")
            .build();
        try (Node node = new Embedded(settings).start()) {
            node.client().admin().cluster().prepareHealth().setWaitForYellowStatus().get();
            var http = node.injector().getInstance(org.opensearch.http.HttpServerTransport.class);
            System.out.println("http://" + http.boundAddress().publishAddress());
            while (System.in.read() >= 0) {}
        }
        System.exit(0);
    }
}
