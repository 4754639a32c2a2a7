-- The index by which Prune finds old rows. The table may be large and in use, and claims must not
-- wait for the index. A run that fails leaves an invalid index, which the next run replaces.
-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS processed_events_by_age;
CREATE INDEX CONCURRENTLY processed_events_by_age ON processed_events (processed_at);

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS processed_events_by_age;
