import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.calcite.config.Lex;
import org.apache.calcite.sql.SqlNode;
import org.apache.calcite.sql.parser.SqlParseException;
import org.apache.calcite.sql.parser.SqlParser;
import org.apache.flink.sql.parser.impl.FlinkSqlParserImpl;
import org.apache.flink.sql.parser.validate.FlinkSqlConformance;

/** Parses the statements on standard input with Flink's parser. Statements and answers end with a NUL. */
public class SqlParserAnswers {
    public static void main(String[] arguments) throws Exception {
        SqlParser.Config config =
                SqlParser.config()
                        .withParserFactory(FlinkSqlParserImpl.FACTORY)
                        .withConformance(FlinkSqlConformance.DEFAULT)
                        .withLex(Lex.JAVA)
                        .withIdentifierMaxLength(256);
        String input = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String statement : input.substring(0, input.length() - 1).split("\0", -1)) {
            // A tree may have a NUL in a string.
            output.print(answer(statement, config).replace('\0', ' ') + "\0");
        }
        output.flush();
    }

    /** The tree as Flink writes it, or the error behind an exclamation mark. */
    private static String answer(String statement, SqlParser.Config config) {
        try {
            SqlNode tree = SqlParser.create(statement, config).parseStmt();
            return tree.getClass().getSimpleName() + " " + tree;
        } catch (SqlParseException error) {
            return "!" + error.getMessage();
        }
    }
}
