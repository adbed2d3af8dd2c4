package flinkpy.nexmark;

import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.sink.SinkV2Provider;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.types.logical.DecimalType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.TimestampType;

import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.Set;

/** A sink that writes every change as a line of text: its kind, then the fields, separated by tabs. */
public final class ChangesTableFactory implements DynamicTableSinkFactory {
    private static final ConfigOption<String> PATH = ConfigOptions.key("path").stringType().noDefaultValue();

    @Override
    public String factoryIdentifier() {
        return "nexmark-changes";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(PATH);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DynamicTableSink createDynamicTableSink(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        List<LogicalType> types = context.getPhysicalRowDataType().getLogicalType().getChildren();
        return new TableSink(helper.getOptions().get(PATH), types);
    }

    private record TableSink(String path, List<LogicalType> types) implements DynamicTableSink {
        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            return requested;
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            return SinkV2Provider.of(new Changes(path, types.toArray(LogicalType[]::new)));
        }

        @Override
        public DynamicTableSink copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "Nexmark Changes";
        }
    }

    private record Changes(String path, LogicalType[] types) implements Sink<RowData> {
        @Override
        public SinkWriter<RowData> createWriter(WriterInitContext context) throws IOException {
            Path folder = Path.of(path);
            Files.createDirectories(folder);
            String name = "part-" + context.getTaskInfo().getIndexOfThisSubtask();
            return new Writer(Files.newBufferedWriter(folder.resolve(name)), types);
        }
    }

    private static final class Writer implements SinkWriter<RowData> {
        private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss.SSS");

        private final BufferedWriter out;
        private final LogicalType[] types;

        Writer(BufferedWriter out, LogicalType[] types) {
            this.out = out;
            this.types = types;
        }

        @Override
        public void write(RowData row, Context context) throws IOException {
            out.write(row.getRowKind().shortString());
            for (int i = 0; i < types.length; i++) {
                out.write('\t');
                out.write(row.isNullAt(i) ? "\\N" : text(row, i));
            }
            out.write('\n');
        }

        private String text(RowData row, int i) {
            LogicalType type = types[i];
            return switch (type.getTypeRoot()) {
                case INTEGER -> String.valueOf(row.getInt(i));
                case BIGINT -> String.valueOf(row.getLong(i));
                case VARCHAR -> row.getString(i).toString().replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n");
                case DECIMAL -> {
                    DecimalType decimal = (DecimalType) type;
                    yield row.getDecimal(i, decimal.getPrecision(), decimal.getScale()).toBigDecimal().toPlainString();
                }
                case TIMESTAMP_WITHOUT_TIME_ZONE ->
                    row.getTimestamp(i, ((TimestampType) type).getPrecision()).toLocalDateTime().format(TIME);
                default -> throw new IllegalArgumentException("no text form of " + type);
            };
        }

        @Override
        public void flush(boolean endOfInput) throws IOException {
            out.flush();
        }

        @Override
        public void close() throws IOException {
            out.close();
        }
    }
}
