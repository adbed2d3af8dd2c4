package flinkpy.nexmark;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.LookupTableSource;
import org.apache.flink.table.connector.source.lookup.LookupFunctionProvider;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.LookupFunction;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The side table of query 13: the numbers below 10,000, each with its text, in memory. */
public final class SideInputTableFactory implements DynamicTableSourceFactory {
    private static final int ROWS = 10_000;

    @Override
    public String factoryIdentifier() {
        return "nexmark-side-input";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of();
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        return new SideInput();
    }

    private static final class SideInput implements LookupTableSource {
        @Override
        public LookupRuntimeProvider getLookupRuntimeProvider(LookupContext context) {
            return LookupFunctionProvider.of(new Lookup());
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "Nexmark Side Input";
        }
    }

    /** Finds rows by key. */
    public static final class Lookup extends LookupFunction {
        private transient Map<Long, List<RowData>> rows;

        @Override
        public void open(FunctionContext context) {
            rows = new HashMap<>();
            for (long key = 0; key < ROWS; key++) {
                rows.put(key, List.of(GenericRowData.of(key, StringData.fromString(String.valueOf(key)))));
            }
        }

        @Override
        public Collection<RowData> lookup(RowData key) {
            return key.isNullAt(0) ? List.of() : rows.getOrDefault(key.getLong(0), List.of());
        }
    }
}
