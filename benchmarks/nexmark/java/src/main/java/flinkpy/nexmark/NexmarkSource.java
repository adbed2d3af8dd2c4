package flinkpy.nexmark;

import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.table.data.RowData;
import org.apache.flink.util.InstantiationUtil;

import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** A source with one generator per subtask. */
final class NexmarkSource implements Source<RowData, NexmarkSource.Split, Collection<NexmarkSource.Split>> {
    private final Generator.Options options;

    NexmarkSource(Generator.Options options) {
        this.options = options;
    }

    @Override
    public Boundedness getBoundedness() {
        return options.numEvents > 0 ? Boundedness.BOUNDED : Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SplitEnumerator<Split, Collection<Split>> createEnumerator(SplitEnumeratorContext<Split> context) {
        int count = context.currentParallelism();
        long share = options.maxEvents() / count;
        long firstEventId = 1;
        List<Split> splits = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            long events = i == count - 1 ? options.maxEvents() - share * (count - 1) : share;
            splits.add(new Split(String.valueOf(i + 1), firstEventId, events, count, 0));
            firstEventId += events;
        }
        return new Enumerator(context, splits);
    }

    @Override
    public SplitEnumerator<Split, Collection<Split>> restoreEnumerator(
            SplitEnumeratorContext<Split> context, Collection<Split> splits) {
        return new Enumerator(context, splits);
    }

    @Override
    public SourceReader<RowData, Split> createReader(SourceReaderContext context) {
        return new Reader(context, options);
    }

    @Override
    public SimpleVersionedSerializer<Split> getSplitSerializer() {
        return new JavaSerializer<>();
    }

    @Override
    public SimpleVersionedSerializer<Collection<Split>> getEnumeratorCheckpointSerializer() {
        return new JavaSerializer<>();
    }

    /** A generator and the number of events that it has emitted. */
    record Split(String splitId, long firstEventId, long events, int generators, long emitted)
            implements SourceSplit, Serializable {}

    private static final class Enumerator implements SplitEnumerator<Split, Collection<Split>> {
        private final SplitEnumeratorContext<Split> context;
        private final ArrayDeque<Split> splits;

        Enumerator(SplitEnumeratorContext<Split> context, Collection<Split> splits) {
            this.context = context;
            this.splits = new ArrayDeque<>(splits);
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {
            if (splits.isEmpty()) {
                context.signalNoMoreSplits(subtask);
            } else {
                context.assignSplit(splits.poll(), subtask);
            }
        }

        @Override
        public void addSplitsBack(List<Split> back, int subtask) {
            splits.addAll(back);
        }

        @Override
        public void addReader(int subtask) {}

        @Override
        public Collection<Split> snapshotState(long checkpointId) {
            return new ArrayList<>(splits);
        }

        @Override
        public void close() {}
    }

    private static final class Reader implements SourceReader<RowData, Split> {
        private final SourceReaderContext context;
        private final Generator.Options options;
        private CompletableFuture<Void> available = new CompletableFuture<>();
        private Split split;
        private Generator generator;
        private long emitted;
        private boolean isDone;

        Reader(SourceReaderContext context, Generator.Options options) {
            this.context = context;
            this.options = options;
        }

        @Override
        public void start() {
            if (split == null) {
                context.sendSplitRequest();
            }
        }

        @Override
        public InputStatus pollNext(ReaderOutput<RowData> output) {
            if (split == null) {
                return isDone ? InputStatus.END_OF_INPUT : InputStatus.NOTHING_AVAILABLE;
            }
            if (emitted >= split.events()) {
                return InputStatus.END_OF_INPUT;
            }
            output.collect(generator.event(emitted++));
            return InputStatus.MORE_AVAILABLE;
        }

        @Override
        public List<Split> snapshotState(long checkpointId) {
            if (split == null) {
                return Collections.emptyList();
            }
            return List.of(
                    new Split(split.splitId(), split.firstEventId(), split.events(), split.generators(), emitted));
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return available;
        }

        @Override
        public void addSplits(List<Split> splits) {
            split = splits.get(0);
            emitted = split.emitted();
            generator = new Generator(options, split.firstEventId(), split.generators());
            available.complete(null);
        }

        @Override
        public void notifyNoMoreSplits() {
            isDone = true;
            available.complete(null);
        }

        @Override
        public void close() {}
    }

    private static final class JavaSerializer<T> implements SimpleVersionedSerializer<T> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(T value) throws IOException {
            return InstantiationUtil.serializeObject(value);
        }

        @Override
        public T deserialize(int version, byte[] bytes) throws IOException {
            try {
                return InstantiationUtil.deserializeObject(bytes, getClass().getClassLoader());
            } catch (ClassNotFoundException error) {
                throw new IOException(error);
            }
        }
    }
}
