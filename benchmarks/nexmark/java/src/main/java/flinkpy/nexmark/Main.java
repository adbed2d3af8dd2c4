package flinkpy.nexmark;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Runs SQL files one after the other, each on a new local cluster in this process.
 *
 * <p>Arguments: a file of configuration (key=value lines), the parallelism, then the SQL files. Statements end with a
 * semicolon at the end of a line. The last statement of a file is an INSERT. A line of JSON is printed for each file.
 */
public final class Main {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            int equals = line.indexOf('=');
            if (equals > 0) {
                configuration.setString(line.substring(0, equals), line.substring(equals + 1));
            }
        }
        int parallelism = Integer.parseInt(arguments[1]);
        for (int i = 2; i < arguments.length; i++) {
            run(configuration, parallelism, Path.of(arguments[i]));
        }
    }

    private static void run(Configuration configuration, int parallelism, Path file) throws Exception {
        String name = file.getFileName().toString().replace(".sql", "");
        try {
            StreamExecutionEnvironment environment =
                    StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);
            StreamTableEnvironment tables = StreamTableEnvironment.create(
                    environment,
                    EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build());
            tables.createTemporarySystemFunction("count_char", CountChar.class);
            List<String> statements = statements(Files.readString(file));
            for (String statement : statements.subList(0, statements.size() - 1)) {
                tables.executeSql(statement);
            }
            String last = statements.get(statements.size() - 1);
            long begin = System.nanoTime();
            long beginCpu = cpuNs();
            TableResult result = tables.executeSql(last);
            long netMs = result.getJobClient().orElseThrow().getJobExecutionResult().get().getNetRuntime();
            double seconds = (System.nanoTime() - begin) / 1e9;
            double cpu = (cpuNs() - beginCpu) / 1e9;
            System.out.printf(
                    "{\"query\": \"%s\", \"job_s\": %.3f, \"total_s\": %.3f, \"cpu_s\": %.3f, \"peak_rss_mb\": %d}%n",
                    name, netMs / 1e3, seconds, cpu, peakMb());
        } catch (Throwable error) {
            Throwable root = error;
            while (root.getCause() != null) {
                root = root.getCause();
            }
            String message = quoted(root.getClass().getSimpleName() + ": " + root.getMessage());
            System.out.printf("{\"query\": \"%s\", \"error\": %s}%n", name, message);
        }
        System.out.flush();
    }

    private static List<String> statements(String text) {
        List<String> statements = new ArrayList<>();
        StringBuilder statement = new StringBuilder();
        for (String line : text.split("\n")) {
            if (line.stripLeading().startsWith("--")) {
                continue;
            }
            statement.append(line).append('\n');
            if (line.stripTrailing().endsWith(";")) {
                String one = statement.toString().strip();
                statements.add(one.substring(0, one.length() - 1));
                statement.setLength(0);
            }
        }
        return statements;
    }

    /** Returns the CPU time of this process, all its threads included. */
    private static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    /** Returns the largest resident size of this process so far. */
    private static long peakMb() throws Exception {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("\\D", "")) / 1024;
            }
        }
        return -1;
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            switch (each) {
                case '"' -> quoted.append("\\\"");
                case '\\' -> quoted.append("\\\\");
                case '\n' -> quoted.append("\\n");
                case '\r' -> quoted.append("\\r");
                case '\t' -> quoted.append("\\t");
                default -> quoted.append(each < ' ' ? "?" : String.valueOf(each));
            }
        }
        return quoted.append('"').toString();
    }
}
