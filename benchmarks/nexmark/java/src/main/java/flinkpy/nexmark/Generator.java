package flinkpy.nexmark;

import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;

import java.io.Serializable;

/**
 * Makes the events of Nexmark that flinkpy.connectors.nexmark makes, one row at a time with all fields, as Nexmark's own
 * source does.
 */
final class Generator {
    private static final int FIRST_PERSON_ID = 1000;
    private static final int FIRST_AUCTION_ID = 1000;
    private static final int FIRST_CATEGORY_ID = 10;
    private static final int CATEGORIES = 5;
    private static final int ID_LEAD = 10;
    private static final int HOT_STRIDE = 100;
    private static final int IN_FLIGHT_AUCTIONS = 100;
    private static final int ACTIVE_PEOPLE = 1000;
    private static final int FIRST_NUMBER = 1;

    /** The options of the table, and the number of generators. */
    static final class Options implements Serializable {
        long rate = 10_000;
        long numEvents = 0;
        int persons = 1;
        int auctions = 3;
        int bids = 46;
        int personSize = 200;
        int auctionSize = 500;
        int bidSize = 100;
        int hotAuctions = 2;
        int hotBidders = 4;
        int hotSellers = 4;
        long baseTimeMs;

        int total() {
            return persons + auctions + bids;
        }

        long maxEvents() {
            return numEvents != 0 ? numEvents : Long.MAX_VALUE / ((long) total() * Math.max(personSize, Math.max(auctionSize, bidSize)));
        }
    }

    private final Options options;
    private final long firstEventId;
    private final double delayUs;
    private final long eventsOfAuctions;
    private final Draws draws = new Draws();
    private final byte[] buffer = new byte[128];

    Generator(Options options, long firstEventId, int generators) {
        this.options = options;
        this.firstEventId = firstEventId;
        this.delayUs = 1_000_000.0 / options.rate * generators;
        this.eventsOfAuctions = (long) IN_FLIGHT_AUCTIONS * options.total() / options.auctions;
    }

    /** Returns the event after `emitted` others. */
    GenericRowData event(long emitted) {
        long number = FIRST_NUMBER + emitted;
        long id = firstEventId + number;
        long time = time(number);
        draws.begin(id);
        long epoch = id / options.total();
        int rest = (int) (id % options.total());
        GenericRowData row = new GenericRowData(4);
        if (rest < options.persons) {
            row.setField(0, 0);
            row.setField(1, person(epoch * options.persons + rest, time));
        } else if (rest < options.persons + options.auctions) {
            long auction = epoch * options.auctions + rest - options.persons;
            row.setField(0, 1);
            row.setField(2, auction(auction, lastPerson(epoch), number, time));
        } else {
            row.setField(0, 2);
            row.setField(3, bid(epoch * options.auctions + options.auctions - 1, lastPerson(epoch), time));
        }
        return row;
    }

    private long lastPerson(long epoch) {
        return epoch * options.persons + options.persons - 1;
    }

    private long time(long number) {
        return options.baseTimeMs + (long) (number * delayUs) / 1000L;
    }

    private GenericRowData person(long number, long time) {
        long word = draws.word(0);
        StringData name = Texts.NAMES[Draws.low(word, 11) * Texts.LAST_NAMES + Draws.high(word, Texts.LAST_NAMES)];
        word = draws.word(1);
        int length = Texts.word(draws, 8, 3 + Draws.low(word, 4), ' ', buffer, 0);
        buffer[length++] = '@';
        length += Texts.word(draws, 10, 3 + Draws.high(word, 2), ' ', buffer, length);
        buffer[length++] = '.';
        buffer[length++] = 'c';
        buffer[length++] = 'o';
        buffer[length++] = 'm';
        StringData email = copied(length);
        word = draws.word(2);
        long next = draws.word(3);
        digits(Draws.low(word, 10_000), 0);
        digits(Draws.high(word, 10_000), 5);
        digits(Draws.low(next, 10_000), 10);
        digits(Draws.high(next, 10_000), 15);
        buffer[4] = buffer[9] = buffer[14] = ' ';
        StringData card = copied(19);
        word = draws.word(4);
        StringData city = Texts.CITIES[Draws.low(word, Texts.CITIES.length)];
        StringData state = Texts.STATES[Draws.high(word, Texts.STATES.length)];
        int size = 8 + size(name) + length + 19 + size(city) + size(state);
        GenericRowData row = new GenericRowData(8);
        row.setField(0, number + FIRST_PERSON_ID);
        row.setField(1, name);
        row.setField(2, email);
        row.setField(3, card);
        row.setField(4, city);
        row.setField(5, state);
        row.setField(6, TimestampData.fromEpochMillis(time));
        row.setField(7, extra(5, size, options.personSize));
        return row;
    }

    private GenericRowData auction(long auction, long lastPerson, long number, long time) {
        long word = draws.word(0);
        long seller = Draws.low(word, options.hotSellers) > 0
                ? lastPerson / HOT_STRIDE * HOT_STRIDE
                : somePerson(lastPerson, word);
        long initialBid = Draws.price(draws.word(2));
        long horizon = time(number + eventsOfAuctions) - time;
        long expires = time + 1 + Draws.low(draws.word(3), (int) Math.max(2 * horizon, 1));
        long lengths = draws.word(5);
        int nameLength = Texts.word(draws, 8, 3 + Draws.low(lengths, 17), ' ', buffer, 0);
        StringData name = copied(nameLength);
        int descriptionLength = Texts.word(draws, 16, 3 + Draws.high(lengths, 97), ' ', buffer, 0);
        StringData description = copied(descriptionLength);
        GenericRowData row = new GenericRowData(10);
        row.setField(0, auction + FIRST_AUCTION_ID);
        row.setField(1, name);
        row.setField(2, description);
        row.setField(3, initialBid);
        row.setField(4, initialBid + Draws.price(draws.word(4)));
        row.setField(5, TimestampData.fromEpochMillis(time));
        row.setField(6, TimestampData.fromEpochMillis(expires));
        row.setField(7, seller + FIRST_PERSON_ID);
        row.setField(8, (long) (Draws.low(draws.word(1), CATEGORIES) + FIRST_CATEGORY_ID));
        row.setField(9, extra(6, 48 + nameLength + descriptionLength, options.auctionSize));
        return row;
    }

    private GenericRowData bid(long lastAuction, long lastPerson, long time) {
        long word = draws.word(0);
        long auction;
        if (Draws.low(word, options.hotAuctions) > 0) {
            auction = lastAuction / HOT_STRIDE * HOT_STRIDE;
        } else {
            long first = Math.max(lastAuction - IN_FLIGHT_AUCTIONS, 0);
            auction = first + Draws.high(word, (int) (lastAuction - first + 1 + ID_LEAD));
        }
        word = draws.word(1);
        long bidder = Draws.low(word, options.hotBidders) > 0
                ? lastPerson / HOT_STRIDE * HOT_STRIDE + 1
                : somePerson(lastPerson, word);
        word = draws.word(3);
        int channel = Draws.low(word, 2) > 0
                ? Draws.high(word, Texts.HOT_CHANNELS)
                : Texts.HOT_CHANNELS + Draws.high(word, Texts.CHANNELS);
        GenericRowData row = new GenericRowData(7);
        row.setField(0, auction + FIRST_AUCTION_ID);
        row.setField(1, bidder + 2 * FIRST_PERSON_ID);
        row.setField(2, Draws.price(draws.word(2)));
        row.setField(3, Texts.CHANNEL_NAMES[channel]);
        row.setField(4, Texts.CHANNEL_URLS[channel]);
        row.setField(5, TimestampData.fromEpochMillis(time));
        row.setField(6, extra(4, 32, options.bidSize));
        return row;
    }

    private static long somePerson(long lastPerson, long word) {
        long people = lastPerson + 1;
        int active = (int) Math.min(people, ACTIVE_PEOPLE);
        return people - active + Draws.high(word, active + ID_LEAD);
    }

    private StringData extra(int draw, int size, int average) {
        int gap = average - size;
        if (gap < 0) {
            return StringData.fromBytes(new byte[0]);
        }
        int spread = (int) Math.floor(gap * 0.2 + 0.5);
        long word = draws.word(draw);
        return Texts.part(Draws.high(word, Texts.FILLER_LENGTH - 2 * average), gap - spread + Draws.low(word, 2 * spread));
    }

    private StringData copied(int length) {
        return StringData.fromBytes(java.util.Arrays.copyOf(buffer, length));
    }

    private void digits(int number, int at) {
        for (int i = 3; i >= 0; i--) {
            buffer[at + i] = (byte) ('0' + number % 10);
            number /= 10;
        }
    }

    private static int size(StringData text) {
        return ((org.apache.flink.table.data.binary.BinaryStringData) text).getSizeInBytes();
    }
}
