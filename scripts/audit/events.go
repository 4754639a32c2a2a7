package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/proto/events"
	"urr.guru/scripts/internal/topics"
	"urr.guru/scripts/platform"
)

// saleFigures are the figures of one sale: numbers of reservations by outcome, seats and payments.
type saleFigures struct {
	Created, Confirmed, Cancelled, Expired, Rejected, SeatsSold, Comps, Voided int64
	Payments, Refunds, Revenue                                                 int64
}

func (s *Stores) unpublishedEvents(ctx context.Context) ([]string, error) {
	var out []string
	for name, db := range map[string]*pgxpool.Pool{platform.Ticket: s.ticket, platform.Payment: s.payment} {
		var rows int
		if err := db.QueryRow(ctx, `SELECT count(*) FROM outbox`).Scan(&rows); err != nil {
			return nil, fmt.Errorf("outbox of %s: %w", name, unavailable(postgresStore(name), err))
		}
		if rows > 0 {
			out = append(out, fmt.Sprintf("%d events in the outbox of %s", rows, name))
		}
	}
	return out, nil
}

// DeadLetters returns the number of records in each dead letter topic. Dead letters are never
// deleted, so a caller that looks for new ones compares the result with an earlier one.
func (s *Stores) DeadLetters(ctx context.Context) (map[string]int64, error) {
	letters, err := topics.Depths(ctx, s.brokers, s.topicPrefix, ".dlq")
	return letters, unavailable(kafkaStore, err)
}

// wrongFigures compares the figures that the stats service has of a sale with the Kafka events in
// the topics, each id counted once, and with the tables of the ticket and payment services. It
// finds Kafka events that were counted twice, not counted, or never published.
func (s *Stores) wrongFigures(ctx context.Context, eventID string) ([]string, error) {
	counted, err := s.readStatsFigures(ctx, eventID)
	if err != nil {
		return nil, err
	}
	published, err := s.readTopicFigures(ctx, eventID)
	if err != nil {
		return nil, err
	}
	out, err := s.compareMinutesWithTotals(ctx, eventID)
	if err != nil {
		return nil, err
	}
	if counted != published {
		out = append(out, fmt.Sprintf("stats has %+v, the events are %+v", counted, published))
	}
	stored, err := s.readTableFigures(ctx, eventID)
	if err != nil {
		return nil, err
	}
	// The tables do not contain the numbers of cancelled, expired and rejected reservations.
	counted.Cancelled, counted.Expired, counted.Rejected = 0, 0, 0
	if counted != stored {
		out = append(out, fmt.Sprintf("stats has %+v, the tables have %+v", counted, stored))
	}
	return out, nil
}

func (s *Stores) readStatsFigures(ctx context.Context, eventID string) (c saleFigures, err error) {
	err = s.stats.QueryRow(ctx, `
		WITH figures AS (SELECT figure, amount, times FROM figures.totals WHERE event_id = $1),
		     count AS (SELECT coalesce(jsonb_object_agg(figure, amount), '{}') AS of FROM figures),
		     paid AS (SELECT coalesce(sum(times), 0)::bigint AS n, coalesce(sum(amount), 0)::bigint AS amount FROM figures
		              WHERE figure IN ('sale', 'membership')),
		     back AS (SELECT coalesce(sum(times), 0)::bigint AS n, coalesce(sum(amount), 0)::bigint AS amount FROM figures
		              WHERE figure IN ('sale_refund', 'membership_refund', 'transfer_refund'))
		SELECT coalesce((of ->> 'created')::bigint, 0), coalesce((of ->> 'confirmed')::bigint, 0), coalesce((of ->> 'cancelled')::bigint, 0),
		       coalesce((of ->> 'expired')::bigint, 0), coalesce((of ->> 'rejected')::bigint, 0), coalesce((of ->> 'seats_sold')::bigint, 0),
		       coalesce((of ->> 'comps')::bigint, 0), coalesce((of ->> 'voided')::bigint, 0),
		       paid.n, back.n, paid.amount - back.amount
		FROM count, paid, back`, eventID).Scan(
		&c.Created, &c.Confirmed, &c.Cancelled, &c.Expired, &c.Rejected, &c.SeatsSold, &c.Comps, &c.Voided, &c.Payments, &c.Refunds, &c.Revenue)
	if err != nil {
		return c, fmt.Errorf("figures of %s: %w", eventID, unavailable(postgresStore(platform.Stats), err))
	}
	return c, nil
}

// compareMinutesWithTotals compares the sums of an event's figures by minute with its totals.
func (s *Stores) compareMinutesWithTotals(ctx context.Context, eventID string) (out []string, err error) {
	rows, _ := s.stats.Query(ctx, `
		SELECT format('the minutes of %s add up to %s, the total is %s', figure, m.amount, t.amount)
		FROM (SELECT figure, currency, sum(amount) AS amount, sum(times) AS times FROM figures.minutes WHERE event_id = $1 GROUP BY 1, 2) AS m
		FULL JOIN (SELECT figure, currency, amount, times FROM figures.totals WHERE event_id = $1) AS t USING (figure, currency)
		WHERE (m.amount, m.times) IS DISTINCT FROM (t.amount, t.times) ORDER BY figure`, eventID) // CollectRows returns its error
	if out, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		err = fmt.Errorf("minutes of %s: %w", eventID, unavailable(postgresStore(platform.Stats), err))
	}
	return out, err
}

// readTableFigures computes a sale's figures from the tables of the ticket and payment services.
func (s *Stores) readTableFigures(ctx context.Context, eventID string) (c saleFigures, err error) {
	err = s.ticket.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE origin = 'SALE'), count(*) FILTER (WHERE origin = 'SALE' AND status IN ('CONFIRMED', 'REFUNDED', 'VOIDED')),
		       coalesce(sum(quantity - released) FILTER (WHERE origin = 'SALE' AND status = 'CONFIRMED'), 0),
		       coalesce(sum(quantity - released) FILTER (WHERE origin = 'COMP' AND status = 'CONFIRMED'), 0),
		       (SELECT count(*) FROM tickets WHERE event_id = $1 AND status = 'VOIDED')
		FROM reservations WHERE event_id = $1`, eventID).Scan(&c.Created, &c.Confirmed, &c.SeatsSold, &c.Comps, &c.Voided)
	if err != nil {
		return c, fmt.Errorf("reservations of %s: %w", eventID, unavailable(postgresStore(platform.Ticket), err))
	}
	var paid, refunded int64
	err = s.payment.QueryRow(ctx, `
		WITH mine AS (SELECT id, amount, status, payment_type FROM payments WHERE event_id = $1),
		     back AS (SELECT count(*) AS n, coalesce(sum(r.send), 0)::bigint AS amount
		              FROM refunds r JOIN mine ON mine.id = r.payment_id
		              WHERE r.published AND r.cause <> 'TRANSFER' AND (mine.payment_type <> 'transfer' OR r.cause <> 'COMPENSATION'))
		SELECT count(*), coalesce(sum(mine.amount), 0)::bigint, (SELECT n FROM back), (SELECT amount FROM back)
		FROM mine WHERE status IN ('CONFIRMED', 'REFUNDED') AND payment_type <> 'transfer'`, eventID).Scan(&c.Payments, &paid, &c.Refunds, &refunded)
	if err != nil {
		return c, fmt.Errorf("payments of %s: %w", eventID, unavailable(postgresStore(platform.Payment), err))
	}
	c.Revenue = paid - refunded
	return c, nil
}

// kafkaEvent has the JSON fields of a Kafka event that the audit uses.
type kafkaEvent struct {
	Type        string `json:"type"`
	EventID     string `json:"eventId"`
	Origin      string `json:"origin"`
	Reason      string `json:"reason"`
	Status      string `json:"status"`
	PaymentType string `json:"paymentType"`
	Cause       string `json:"cause"`
	Quantity    int64  `json:"quantity"`
	Amount      int64  `json:"amount"`
	RewardKind  string `json:"rewardKind"`
	Value       int64  `json:"value"`
}

// readTopicFigures computes the figures of a sale from the topics. It counts each event id once.
func (s *Stores) readTopicFigures(ctx context.Context, eventID string) (c saleFigures, err error) {
	for _, topic := range []string{events.Reservations, events.Payments} {
		facts, err := s.readKafkaEvents(ctx, topic, eventID)
		if err != nil {
			return c, err
		}
		for _, f := range facts {
			c.countEvent(f)
		}
	}
	return c, nil
}

// readKafkaEvents reads the Kafka events of a sale or campaign from a topic, without repetitions.
func (s *Stores) readKafkaEvents(ctx context.Context, topic, eventID string) ([]kafkaEvent, error) {
	records, err := s.read(ctx, s.brokers, s.topicPrefix+topic)
	if err != nil {
		return nil, unavailable(kafkaStore, err)
	}
	var out []kafkaEvent
	seen := map[string]bool{}
	for _, r := range records {
		id := recordHeader(r, "ce_id")
		var f kafkaEvent
		if err := json.Unmarshal(r.Value, &f); err != nil {
			return nil, fmt.Errorf("event %s of %s, maybe of another commit (run make reset): %w", id, topic, err)
		}
		if f.EventID == eventID && !seen[id] && (s.forged == nil || !s.forged(id)) {
			seen[id] = true
			out = append(out, f)
		}
	}
	return out, nil
}

func recordHeader(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func (c *saleFigures) countEvent(f kafkaEvent) {
	if f.Origin == "COMP" { // given away: neither sold nor paid
		c.countComp(f)
		return
	}
	switch f.Type {
	case events.ReservationCreated:
		c.Created++
	case events.ReservationConfirmed:
		c.Confirmed++
		c.SeatsSold += f.Quantity
	case events.ReservationCancelled:
		if f.Status != "CONFIRMED" && f.Quantity > 0 { // while it is CONFIRMED, some of its tickets are left; 0: only fees
			c.Cancelled++
		}
		if f.Reason == "REFUNDED" {
			c.SeatsSold -= f.Quantity
		}
	case events.TicketsVoided:
		c.SeatsSold, c.Voided = c.SeatsSold-f.Quantity, c.Voided+f.Quantity
	case events.ReservationExpired:
		c.Expired++
	case events.ReservationRejected:
		c.Rejected++
	}
	transfer := f.PaymentType == "transfer"
	if f.Cause == "TRANSFER" || transfer && (f.Type == events.PaymentConfirmed || f.Cause == "COMPENSATION") {
		return // money that passes from visitor to visitor is no revenue
	}
	switch f.Type {
	case events.PaymentConfirmed:
		c.Payments++
		c.Revenue += f.Amount
	case events.PaymentRefunded:
		c.Refunds++
		c.Revenue -= f.Amount
	}
}

func (c *saleFigures) countComp(f kafkaEvent) {
	switch f.Type {
	case events.ReservationConfirmed:
		c.Comps += f.Quantity
	case events.ReservationCancelled:
		c.Comps -= f.Quantity
	case events.TicketsVoided:
		c.Comps, c.Voided = c.Comps-f.Quantity, c.Voided+f.Quantity
	}
}

// countedFigures describes a kind of figures that the stats service computes from one topic.
type countedFigures struct {
	// subject is the plural noun for what is counted, for the report.
	subject string
	topic   string
	// counts maps a type of Kafka event to the figure that it increments.
	counts map[string]string
	// add adds to amounts such as points, which do not count Kafka events; nil if there are none.
	add func(published map[string]int64, f kafkaEvent)
}

// allCountedFigures returns all kinds: of rewards, of requests to promotions, and of memberships.
func allCountedFigures() []countedFigures {
	return []countedFigures{
		{
			subject: "rewards", topic: events.Rewards,
			counts: map[string]string{events.RewardEntered: "entries", events.RewardPaid: "rewards_paid", events.RewardFailed: "rewards_failed", events.RewardCancelled: "rewards_cancelled"},
			add: func(published map[string]int64, f kafkaEvent) {
				if f.Type == events.RewardPaid && f.RewardKind == "POINT" {
					published[pointsPaid] += f.Value
				}
			},
		},
		{
			subject: "requests", topic: events.Requests,
			counts: map[string]string{events.RequestSucceeded: "requests_succeeded", events.RequestRejected: "requests_rejected", events.RequestFailed: "requests_failed"},
		},
		{
			subject: "memberships", topic: events.Memberships,
			counts: map[string]string{events.MembershipActivated: "memberships_activated", events.MembershipRejected: "memberships_rejected", events.MembershipEnded: "memberships_ended"},
		},
	}
}

// names returns the names of all figures of the kind.
func (d countedFigures) names() []string {
	names := slices.Collect(maps.Values(d.counts))
	if d.add != nil {
		names = append(names, pointsPaid)
	}
	return names
}

// pointsPaid is the only figure of rewards that is an amount, not a number of Kafka events.
const pointsPaid = "points_paid"

// differences compares an event's figures in the stats service with its Kafka events. It returns
// one sentence if they differ, otherwise nothing.
func (d countedFigures) differences(ctx context.Context, s *Stores, eventID string) ([]string, error) {
	counted := map[string]int64{}
	err := s.stats.QueryRow(ctx, `
		SELECT coalesce(jsonb_object_agg(figure, amount), '{}') FROM figures.totals WHERE event_id = $1 AND figure = ANY ($2)`, eventID, d.names()).Scan(&counted)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", d.subject, eventID, unavailable(postgresStore(platform.Stats), err))
	}
	facts, err := s.readKafkaEvents(ctx, d.topic, eventID)
	if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) { // without the service that publishes to it, the topic does not exist
		return nil, err
	}
	published := map[string]int64{}
	for _, f := range facts {
		if name := d.counts[f.Type]; name != "" {
			published[name]++
		}
		if d.add != nil {
			d.add(published, f)
		}
	}
	for _, figures := range []map[string]int64{counted, published} {
		maps.DeleteFunc(figures, func(_ string, n int64) bool { return n == 0 })
	}
	if maps.Equal(counted, published) {
		return nil, nil
	}
	return []string{fmt.Sprintf("stats has the %s %v, the events are %v", d.subject, counted, published)}, nil
}
