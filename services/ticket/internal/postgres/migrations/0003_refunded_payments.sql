-- +goose Up
-- Payments that were refunded, at the version that said so: a confirmation of the same payment that is heard later is the older word.
CREATE TABLE refunded_payments (
    payment_id uuid   PRIMARY KEY,
    version    bigint NOT NULL
);

-- +goose Down
DROP TABLE refunded_payments;
