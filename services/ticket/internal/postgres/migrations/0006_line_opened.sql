-- When queue opened the line for the first time; NULL: never. Only a line that was never opened begins without a recovery.
--
-- Lines that exist may be in use, so they count as opened. So do rows that the previous release inserts, by the default: its queue may have
-- opened their lines without recording it. This release inserts NULL. The next one drops the default.
-- +goose Up
ALTER TABLE line_settings ADD COLUMN opened_at timestamptz DEFAULT now();

-- +goose Down
ALTER TABLE line_settings DROP COLUMN opened_at;
