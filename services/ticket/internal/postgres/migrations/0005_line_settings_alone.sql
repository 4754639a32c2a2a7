-- What a line's threshold and slot seconds are stands in line_settings alone. These columns said what was last put with the event, so that
-- a later PUT without them looked like a change. The previous release still reads and writes them; the next one drops them.
-- +goose Up
UPDATE events SET threshold = NULL, slot_seconds = NULL WHERE threshold IS NOT NULL OR slot_seconds IS NOT NULL;

-- +goose Down
SELECT 1;
