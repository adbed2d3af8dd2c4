-- Periods in which a bidder's price for an auction falls, then rises. AFTER MATCH SKIP TO LAST.
CREATE TABLE nexmark_cep0 (
  auction BIGINT,
  bidder BIGINT,
  start_tstamp TIMESTAMP(3),
  bottom_tstamp TIMESTAMP(3),
  end_tstamp TIMESTAMP(3)
) WITH (
  'connector' = 'blackhole'
);

INSERT INTO nexmark_cep0
SELECT auction, bidder, start_tstamp, bottom_tstamp, end_tstamp
FROM bid MATCH_RECOGNIZE (
  PARTITION BY auction, bidder
  ORDER BY `dateTime`
  MEASURES
    START_ROW.`dateTime` AS start_tstamp,
    LAST(PRICE_DOWN.`dateTime`) AS bottom_tstamp,
    LAST(PRICE_UP.`dateTime`) AS end_tstamp
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO LAST PRICE_UP
  PATTERN (START_ROW PRICE_DOWN+ PRICE_UP)
  DEFINE
    PRICE_DOWN AS
      (LAST(PRICE_DOWN.price, 1) IS NULL AND PRICE_DOWN.price < START_ROW.price)
      OR PRICE_DOWN.price < LAST(PRICE_DOWN.price, 1),
    PRICE_UP AS PRICE_UP.price > LAST(PRICE_DOWN.price, 1)
);
