import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.Period;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.types.Row;
import org.apache.flink.types.variant.Variant;

/**
 * Evaluates SQL expressions with Flink and prints one JSON line for each: sql, zone, type, and value or error.
 *
 * <p>Argument: a file with one expression per line. A line "#zone X" sets the session time zone for the lines after it.
 */
public final class RecordExpressions {
    private static final int CHUNK = 100;
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("HH:mm:ss.nnnnnnnnn");
    private static final DateTimeFormatter TIMESTAMP = DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.nnnnnnnnn");

    private record Question(int number, String sql, String zone, String type) {}

    private static TableEnvironment environment;
    private static String[] answers;

    public static void main(String[] arguments) throws Exception {
        environment = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        environment.getConfig().set("parallelism.default", "1");
        List<String> lines = Files.readAllLines(Path.of(arguments[0]), StandardCharsets.UTF_8);
        List<Question> questions = new ArrayList<>();
        answers = new String[lines.size()];
        String zone = "UTC";
        for (int number = 0; number < lines.size(); number++) {
            String sql = lines.get(number);
            if (sql.startsWith("#zone ")) {
                zone = sql.substring(6).trim();
            } else if (!sql.isBlank() && !sql.startsWith("#")) {
                try {
                    environment.getConfig().set("table.local-time-zone", zone);
                    LogicalType type = environment.sqlQuery("SELECT " + sql).getResolvedSchema()
                            .getColumnDataTypes().get(0).getLogicalType();
                    try {
                        environment.explainSql("SELECT " + sql); // computes constants
                        questions.add(new Question(number, sql, zone, type.asSummaryString()));
                    } catch (Throwable error) {
                        String reason = "\"error\": " + text(reason(error));
                        answers[number] = line(sql, zone, type.asSummaryString(), reason);
                    }
                } catch (Throwable error) {
                    answers[number] = line(sql, zone, null, "\"invalid\": " + text(reason(error)));
                }
            }
        }
        for (String each : questions.stream().map(Question::zone).distinct().toList()) {
            environment.getConfig().set("table.local-time-zone", each);
            List<Question> group = questions.stream().filter(one -> one.zone().equals(each)).toList();
            for (int start = 0; start < group.size(); start += CHUNK) {
                ask(group.subList(start, Math.min(group.size(), start + CHUNK)));
            }
        }
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String answer : answers) {
            if (answer != null) {
                out.println(answer);
            }
        }
        System.exit(0);
    }

    private static void ask(List<Question> questions) {
        try {
            String columns = questions.stream().map(each -> each.sql() + " AS c" + each.number())
                    .collect(Collectors.joining(", "));
            Row row;
            try (var rows = environment.executeSql("SELECT " + columns).collect()) {
                row = rows.next();
            }
            for (int position = 0; position < questions.size(); position++) {
                Question each = questions.get(position);
                String value = json(row.getField(position), each.type());
                answers[each.number()] = line(each.sql(), each.zone(), each.type(), "\"value\": " + value);
            }
        } catch (Throwable error) {
            if (questions.size() == 1) {
                Question each = questions.get(0);
                String reason = "\"error\": " + text(reason(error));
                answers[each.number()] = line(each.sql(), each.zone(), each.type(), reason);
            } else {
                int middle = questions.size() / 2;
                ask(questions.subList(0, middle));
                ask(questions.subList(middle, questions.size()));
            }
        }
    }

    private static String line(String sql, String zone, String type, String rest) {
        return "{\"sql\": " + text(sql) + (zone.equals("UTC") ? "" : ", \"zone\": " + text(zone))
                + (type == null ? "" : ", \"type\": " + text(type)) + ", " + rest + "}";
    }

    private static String reason(Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        String message = cause.getMessage() == null ? "" : cause.getMessage();
        return cause.getClass().getSimpleName() + ": " + message.substring(0, Math.min(300, message.length()));
    }

    private static String json(Object value, String type) {
        if (value == null) {
            return "null";
        } else if (value instanceof Float || value instanceof Double) {
            double number = ((Number) value).doubleValue();
            return Double.isFinite(number) ? value.toString() : text(value.toString());
        } else if (value instanceof BigDecimal number) {
            return text(number.toPlainString());
        } else if (value instanceof Number || value instanceof Boolean) {
            return value.toString();
        } else if (value instanceof byte[] bytes) {
            return text("0x" + HexFormat.of().formatHex(bytes));
        } else if (value instanceof LocalDate date) {
            return text(date.toString());
        } else if (value instanceof LocalTime time) {
            return text(TIME.format(time));
        } else if (value instanceof LocalDateTime timestamp) {
            return text(TIMESTAMP.format(timestamp));
        } else if (value instanceof Instant instant) {
            return text(TIMESTAMP.format(instant.atOffset(ZoneOffset.UTC)) + "Z");
        } else if (value instanceof Period period) {
            return Long.toString(period.toTotalMonths());
        } else if (value instanceof Duration duration) {
            return Long.toString(duration.toMillis());
        } else if (value instanceof Object[] array) {
            return list(List.of(wrapped(array)), type);
        } else if (value instanceof int[] array) {
            return java.util.Arrays.toString(array);
        } else if (value instanceof long[] array) {
            return java.util.Arrays.toString(array);
        } else if (value instanceof Row row) {
            List<Object[]> fields = new ArrayList<>();
            for (int index = 0; index < row.getArity(); index++) {
                fields.add(new Object[] {row.getField(index)});
            }
            return list(fields, type);
        } else if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream()
                    .map(entry -> "[" + json(entry.getKey(), type) + ", " + json(entry.getValue(), type) + "]")
                    .sorted().collect(Collectors.joining(", ", "[", "]"));
        } else if (value instanceof Variant variant) {
            return text(variant.toJson());
        }
        return text(value.toString());
    }

    private static Object[][] wrapped(Object[] values) {
        Object[][] result = new Object[values.length][];
        for (int index = 0; index < values.length; index++) {
            result[index] = new Object[] {values[index]};
        }
        return result;
    }

    private static String list(List<Object[]> values, String type) {
        return values.stream().map(each -> json(each[0], type)).collect(Collectors.joining(", ", "[", "]"));
    }

    private static String text(String value) {
        StringBuilder result = new StringBuilder("\"");
        for (char each : value.toCharArray()) {
            if (each == '"' || each == '\\') {
                result.append('\\').append(each);
            } else if (each < ' ' || each > '~') {
                result.append(String.format("\\u%04x", (int) each));
            } else {
                result.append(each);
            }
        }
        return result.append('"').toString();
    }
}
