package flinkpy.nexmark;

import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.functions.ScalarFunction;

/** Counts the occurrences of a character in a text, by bytes. */
public final class CountChar extends ScalarFunction {
    public long eval(@DataTypeHint("STRING") StringData text, @DataTypeHint("STRING") StringData character) {
        if (text == null) {
            return 0;
        }
        byte wanted = character.toBytes()[0];
        long count = 0;
        for (byte each : text.toBytes()) {
            if (each == wanted) {
                count++;
            }
        }
        return count;
    }
}
