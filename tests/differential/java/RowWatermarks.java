import org.apache.flink.api.common.eventtime.TimestampAssigner;
import org.apache.flink.api.common.eventtime.TimestampAssignerSupplier;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkGeneratorSupplier;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.types.Row;

/** Event time as the records say it: field 2 is the timestamp, field 3 the watermark behind the record, or null. */
public class RowWatermarks implements WatermarkStrategy<Row> {
    @Override
    public TimestampAssigner<Row> createTimestampAssigner(TimestampAssignerSupplier.Context context) {
        return (row, before) -> (Long) row.getField(2);
    }

    @Override
    public WatermarkGenerator<Row> createWatermarkGenerator(WatermarkGeneratorSupplier.Context context) {
        return new WatermarkGenerator<Row>() {
            @Override
            public void onEvent(Row row, long timestamp, WatermarkOutput output) {
                Long watermark = (Long) row.getField(3);
                if (watermark != null) {
                    output.emitWatermark(new Watermark(watermark));
                }
            }

            @Override
            public void onPeriodicEmit(WatermarkOutput output) {}
        };
    }
}
