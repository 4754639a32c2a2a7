-- +goose Up
CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL CONSTRAINT balance_positive CHECK (balance >= 0));

-- +goose Down
DROP TABLE account;
