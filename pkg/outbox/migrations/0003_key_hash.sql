-- +goose NO TRANSACTION
-- +goose Up
-- The rows from before the trigger. While the broker is away there may be millions: each 5,000 are a transaction of their own, since
-- relays wait to delete a row that is locked, and hold events back behind a transaction that lasts. Repeatable after a crash.
-- +goose StatementBegin
DO $$
DECLARE
    done bigint := 0;
    till bigint;
BEGIN
    LOOP
        SELECT max(id) INTO till
        FROM (SELECT id FROM outbox WHERE id > done AND key_hash IS NULL ORDER BY id LIMIT 5000) AS next;
        EXIT WHEN till IS NULL;
        UPDATE outbox SET key_hash = outbox_key_hash(key) WHERE id > done AND id <= till AND key_hash IS NULL;
        COMMIT;
        done := till;
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
SELECT 1;
