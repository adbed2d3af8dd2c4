import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * Runs statements with Flink and prints one JSON line for each query: its rows, its plan, or the messages of its error.
 *
 * <p>Argument: a file of statements with a NUL character behind each. Those that begin with SELECT are queries; those that
 * begin with EXPLAIN give a plan.
 */
public final class RecordMatches {
    private RecordMatches() {}

    public static void main(String[] arguments) throws Exception {
        TableEnvironment environment = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        environment.getConfig().set("parallelism.default", "1");
        environment.getConfig().set("table.local-time-zone", "UTC");
        String all = Files.readString(Path.of(arguments[0]), StandardCharsets.UTF_8);
        for (String statement : all.split("\0")) {
            if (statement.startsWith("SELECT")) {
                System.out.println(answer(environment, statement));
            } else if (statement.startsWith("EXPLAIN")) {
                System.out.println(explained(environment, statement));
            } else if (!statement.isBlank()) {
                environment.executeSql(statement);
            }
        }
    }

    private static String answer(TableEnvironment environment, String statement) {
        List<String> rows = new ArrayList<>();
        try (CloseableIterator<Row> results = environment.executeSql(statement).collect()) {
            while (results.hasNext()) {
                rows.add(text(results.next().toString()));
            }
            return "{\"rows\": [" + String.join(", ", rows) + "]}";
        } catch (Throwable error) {
            return failed(error);
        }
    }

    private static String explained(TableEnvironment environment, String statement) {
        try {
            return "{\"plan\": " + text(environment.explainSql(statement.substring(8))) + "}";
        } catch (Throwable error) {
            return failed(error);
        }
    }

    private static String failed(Throwable error) {
        List<String> messages = new ArrayList<>();
        for (Throwable each = error; each != null; each = each.getCause()) {
            if (each.getMessage() != null) {
                messages.add(text(each.getClass().getSimpleName() + ": " + each.getMessage().split("\n\tat ")[0]));
            }
        }
        return "{\"errors\": [" + String.join(", ", messages) + "]}";
    }

    private static String text(String value) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char each : value.toCharArray()) {
            if (each == '"' || each == '\\') {
                quoted.append('\\').append(each);
            } else if (each < ' ' || each > '~') {
                quoted.append(String.format("\\u%04x", (int) each));
            } else {
                quoted.append(each);
            }
        }
        return quoted.append('"').toString();
    }
}
