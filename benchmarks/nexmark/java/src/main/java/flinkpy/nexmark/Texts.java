package flinkpy.nexmark;

import org.apache.flink.table.data.StringData;

import java.nio.charset.StandardCharsets;

/** The texts of events, made once: names, channels with their URLs, and the filler of the extra fields. */
final class Texts {
    static final StringData[] NAMES = names();
    static final StringData[] CITIES =
            strings("Phoenix,Los Angeles,San Francisco,Boise,Portland,Bend,Redmond,Seattle,Kent,Cheyenne".split(","));
    static final StringData[] STATES = strings("AZ,CA,ID,OR,WA,WY".split(","));
    static final int LAST_NAMES = 9;
    static final int HOT_CHANNELS = 4;
    static final int CHANNELS = 10_000;
    static final StringData[] CHANNEL_NAMES = new StringData[HOT_CHANNELS + CHANNELS];
    static final StringData[] CHANNEL_URLS = new StringData[HOT_CHANNELS + CHANNELS];
    static final int FILLER_LENGTH = 1 << 20;
    static final byte[] FILLER = filler();

    private static final int MIN_WORD_LENGTH = 3;
    private static final String[] HOT_NAMES = {"Google", "Facebook", "Baidu", "Apple"};

    static {
        Draws draws = new Draws();
        byte[] buffer = new byte[16];
        for (int i = 0; i < CHANNEL_NAMES.length; i++) {
            int number = i < HOT_CHANNELS ? CHANNELS + i : i - HOT_CHANNELS;
            draws.begin(-1L - number);
            long lengths = draws.word(0);
            long last = draws.word(1);
            StringBuilder url = new StringBuilder("https://www.nexmark.com/");
            int[] sizes = {Draws.low(lengths, 2), Draws.high(lengths, 2), Draws.low(last, 2)};
            for (int part = 0; part < 3; part++) {
                int length = word(draws, 2 + part, MIN_WORD_LENGTH + sizes[part], '_', buffer, 0);
                url.append(new String(buffer, 0, length, StandardCharsets.US_ASCII)).append('/');
            }
            url.append("item.htm?query=1");
            if (i >= HOT_CHANNELS && Draws.high(last, 10) > 0) {
                url.append("&channel_id=").append(Math.abs(Integer.reverse(number)));
            }
            CHANNEL_NAMES[i] = StringData.fromString(i < HOT_CHANNELS ? HOT_NAMES[i] : "channel-" + number);
            CHANNEL_URLS[i] = StringData.fromString(url.toString());
            CHANNEL_NAMES[i].toBytes();
            CHANNEL_URLS[i].toBytes();
        }
    }

    /** Writes a random word and returns its length. Spaces at both ends are left out. */
    static int word(Draws draws, int first, int length, char special, byte[] out, int at) {
        long word = 0;
        for (int i = 0; i < length; i++) {
            if ((i & 3) == 0) {
                word = draws.word(first + (i >> 2));
            }
            int code = (((int) (word >>> (16 * (i & 3))) & 0xFFFF) * (13 * 26)) >>> 16;
            out[at + i] = (byte) (code < 26 ? special : 'a' + code % 26);
        }
        if (special != ' ') {
            return length;
        }
        int begin = at;
        int end = at + length;
        while (begin < end && out[begin] == ' ') {
            begin++;
        }
        while (end > begin && out[end - 1] == ' ') {
            end--;
        }
        System.arraycopy(out, begin, out, at, end - begin);
        return end - begin;
    }

    /** Returns a part of the filler, without a copy. */
    static StringData part(int start, int length) {
        return StringData.fromBytes(FILLER, start, length);
    }

    private static StringData[] names() {
        String[] firsts = "Peter,Paul,Luke,John,Saul,Vicky,Kate,Julie,Sarah,Deiter,Walter".split(",");
        String[] lasts = "Shultz,Abrams,Spencer,White,Bartels,Walton,Smith,Jones,Noris".split(",");
        String[] names = new String[firsts.length * lasts.length];
        for (int i = 0; i < names.length; i++) {
            names[i] = firsts[i / lasts.length] + " " + lasts[i % lasts.length];
        }
        return strings(names);
    }

    private static StringData[] strings(String[] texts) {
        StringData[] strings = new StringData[texts.length];
        for (int i = 0; i < texts.length; i++) {
            strings[i] = StringData.fromBytes(texts[i].getBytes(StandardCharsets.UTF_8));
        }
        return strings;
    }

    private static byte[] filler() {
        int perInt = 6;
        int groups = (FILLER_LENGTH + perInt - 1) / perInt;
        byte[] text = new byte[groups * perInt];
        Draws draws = new Draws();
        for (int group = 0; group < groups; group++) {
            draws.begin(-(1L << 32) - groups + group);
            int rest = (int) (draws.word(0) >>> 32);
            for (int i = 0; i < perInt; i++) {
                text[group * perInt + i] = (byte) ('a' + rest % 26);
                rest /= 26;
            }
        }
        return java.util.Arrays.copyOf(text, FILLER_LENGTH);
    }
}
