import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Enumeration;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.FallbackKey;

/**
 * Prints every other key under which Flink reads an option: current key, other key, deprecated or fallback, position.
 * Arguments: the jars to look through, which are also on the class path. Run by gen_key_aliases.py.
 */
public class ConfigKeys {
    public static void main(String[] jars) throws Exception {
        TreeSet<String> lines = new TreeSet<>();
        for (String path : jars) {
            try (JarFile jar = new JarFile(path)) {
                for (Enumeration<JarEntry> entries = jar.entries(); entries.hasMoreElements(); ) {
                    String name = entries.nextElement().getName();
                    if (name.startsWith("org/apache/flink/") && name.endsWith(".class")) {
                        String type = name.substring(0, name.length() - ".class".length()).replace('/', '.');
                        collect(type, lines);
                    }
                }
            }
        }
        lines.forEach(System.out::println);
    }

    private static void collect(String name, TreeSet<String> lines) {
        Class<?> type;
        Field[] fields;
        try {
            type = Class.forName(name, false, ConfigKeys.class.getClassLoader());
            fields = type.getDeclaredFields();
        } catch (LinkageError | ClassNotFoundException error) {
            return; // A class that needs an optional library. Flink cannot load it either.
        }
        for (Field field : fields) {
            if (Modifier.isStatic(field.getModifiers()) && ConfigOption.class.isAssignableFrom(field.getType())) {
                try {
                    field.setAccessible(true);
                    print((ConfigOption<?>) field.get(null), lines);
                } catch (LinkageError | IllegalAccessException error) {
                    System.err.println("not read: " + name + "." + field.getName() + ": " + error);
                }
            }
        }
    }

    private static void print(ConfigOption<?> option, TreeSet<String> lines) {
        int position = 0;
        for (FallbackKey key : option.fallbackKeys()) {
            String kind = key.isDeprecated() ? "deprecated" : "fallback";
            lines.add(String.join("\t", option.key(), String.format("%02d", position++), key.getKey(), kind));
        }
    }
}
