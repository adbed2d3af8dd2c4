-- The average price of the last ten auctions of each seller. In Nexmark's own text aliases are used out of their scope,
-- and a number is written to a text column: both are corrected here.
CREATE TABLE nexmark_q6 (
  seller VARCHAR,
  avg_price BIGINT
) WITH (
  'connector' = 'blackhole'
);

INSERT INTO nexmark_q6
SELECT
  CAST(Q.seller AS VARCHAR),
  AVG(Q.price) OVER (PARTITION BY Q.seller ORDER BY Q.`dateTime` ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)
FROM (
  SELECT id, seller, price, `dateTime`
  FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY id, seller ORDER BY price DESC) AS rownum
    FROM (
      SELECT A.id, A.seller, B.price, B.`dateTime`
      FROM auction AS A, bid AS B
      WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires
    )
  )
  WHERE rownum <= 1
) AS Q;
