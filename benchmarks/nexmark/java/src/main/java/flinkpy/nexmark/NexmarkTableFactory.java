package flinkpy.nexmark;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;

import java.util.Set;

/** The connector nexmark. Like Nexmark's own, its source takes over no projection and no filter. */
public final class NexmarkTableFactory implements DynamicTableSourceFactory {
    private static final ConfigOption<Long> RATE =
            ConfigOptions.key("first-event.rate").longType().defaultValue(10_000L);
    private static final ConfigOption<Long> NEXT_RATE =
            ConfigOptions.key("next-event.rate").longType().defaultValue(10_000L);
    private static final ConfigOption<Long> EVENTS = ConfigOptions.key("events.num").longType().defaultValue(0L);
    private static final ConfigOption<Long> BASE_TIME = ConfigOptions.key("base-time").longType().noDefaultValue();

    @Override
    public String factoryIdentifier() {
        return "nexmark";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(BASE_TIME);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(RATE, NEXT_RATE, EVENTS);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        ReadableConfig config = helper.getOptions();
        Generator.Options options = new Generator.Options();
        options.rate = config.get(RATE);
        options.numEvents = config.get(EVENTS);
        options.baseTimeMs = config.get(BASE_TIME);
        return new TableSource(options);
    }

    private record TableSource(Generator.Options options) implements ScanTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return SourceProvider.of(new NexmarkSource(options));
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "Nexmark Source";
        }
    }
}
