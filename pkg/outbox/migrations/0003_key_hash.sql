-- +goose NO TRANSACTION
-- +goose Up
-- Hashes the keys of rows older than the trigger. There may be millions if the broker was
-- unavailable. Each 5,000 are one transaction, since relays wait for locked rows, and hold back
-- events behind a long transaction. Repeatable after a crash.
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
