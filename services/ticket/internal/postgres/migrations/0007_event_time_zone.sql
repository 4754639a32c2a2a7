-- IANA time zone of the venue, in which the pages show the event's times. The previous release
-- inserts events without it: the default is that of the service.
-- +goose Up
ALTER TABLE events ADD COLUMN time_zone text NOT NULL DEFAULT 'Asia/Seoul' CHECK (time_zone <> '');

-- +goose Down
ALTER TABLE events DROP COLUMN time_zone;
