-- Finds what Prune forgets. The table may be large and in use: claims must not wait for the index. A run that fails leaves an index that is
-- not valid, which the next one has to make anew.
-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS processed_events_by_age;
CREATE INDEX CONCURRENTLY processed_events_by_age ON processed_events (processed_at);

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS processed_events_by_age;
