-- +goose Up
-- Until its first VACUUM or ANALYZE a table is taken for one of ten pages at least, and every statement goes by an index. Of a small table
-- that has been looked at PostgreSQL knows that reading all of it costs less, and such a plan stays cached while the first minute of a sale
-- fills it. So autovacuum looks at these only when they are large.
ALTER TABLE payments SET (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);
ALTER TABLE refunds SET (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000);

-- +goose Down
ALTER TABLE payments RESET (autovacuum_analyze_threshold, autovacuum_vacuum_threshold, autovacuum_vacuum_insert_threshold);
ALTER TABLE refunds RESET (autovacuum_analyze_threshold, autovacuum_vacuum_threshold, autovacuum_vacuum_insert_threshold);
