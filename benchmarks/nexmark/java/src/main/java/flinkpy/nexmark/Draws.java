package flinkpy.nexmark;

/** The random numbers of an event: those of a SplittableRandom whose seed is the mixed id of the event. */
final class Draws {
    private static final long GOLDEN_GAMMA = 0x9E3779B97F4A7C15L;
    private static final int PRICE_BITS = 11;
    private static final double[][] PRICES = priceTables();

    private long seed;

    void begin(long key) {
        seed = mix64(key);
    }

    /** Returns the draw with this number, from 0 on. */
    long word(int number) {
        return mix64(seed + (number + 1) * GOLDEN_GAMMA);
    }

    static int low(long word, int bound) {
        return (int) (((word & 0xFFFFFFFFL) * bound) >>> 32);
    }

    static int high(long word, int bound) {
        return (int) (((word >>> 32) * bound) >>> 32);
    }

    /** Returns a price whose logarithm is uniform, as the product of entries of tables. */
    static long price(long word) {
        int mask = (1 << PRICE_BITS) - 1;
        double factor = PRICES[0][(int) (word >>> (64 - PRICE_BITS))];
        factor *= PRICES[1][(int) (word >>> (64 - 2 * PRICE_BITS)) & mask];
        factor *= PRICES[2][(int) (word >>> (64 - 3 * PRICE_BITS)) & mask];
        return (long) (factor * 100.0 + 0.5);
    }

    static long mix64(long z) {
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }

    private static double[][] priceTables() {
        double[][] tables = new double[3][1 << PRICE_BITS];
        double root = 1e6;
        for (double[] table : tables) {
            java.util.Arrays.fill(table, 1.0);
            for (int bit = 0; bit < PRICE_BITS; bit++) {
                root = Math.sqrt(root);
                for (int i = 0; i < table.length; i++) {
                    if (((i >> (PRICE_BITS - 1 - bit)) & 1) == 1) {
                        table[i] *= root;
                    }
                }
            }
        }
        return tables;
    }
}
