"""SQL over generated orders: the best-selling items of each ten seconds.

Run: python examples/sql.py
"""

from flinkpy.table import EnvironmentSettings, TableEnvironment

tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
tables.execute_sql("""
    CREATE TABLE orders (
      id BIGINT,
      item INT,
      quantity INT,
      ts AS TIMESTAMPADD(SECOND, CAST(id / 100 AS INT), TIMESTAMP '2026-01-01 00:00:00'),
      WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
    ) WITH (
      'connector' = 'datagen',
      'rows-per-second' = '100000',
      'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '4999',
      'fields.item.min' = '1', 'fields.item.max' = '9',
      'fields.quantity.min' = '1', 'fields.quantity.max' = '3'
    )
""")
tables.execute_sql("""
    CREATE VIEW sold AS
    SELECT window_start, item, SUM(quantity) AS pieces
    FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end, item
""")
best = tables.sql_query("""
    SELECT window_start, item, pieces
    FROM (
      SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY pieces DESC) AS place
      FROM sold
    )
    WHERE place <= 2
""")
for row in sorted(best.to_arrow().to_pylist(), key=lambda row: (row["window_start"], -row["pieces"])):
    print(f"{row['window_start']:%H:%M:%S}  item {row['item']}: {row['pieces']} pieces")
