package chaos_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/proto/events"
)

// moneyTopics moves events from the outboxes to the handlers of their consumers as Kafka does: in
// the order of each key, at least once. With faults, it publishes records twice, as when a relay
// dies, delivers them again after a rewind, and delivers parked records later, out of order, as
// from a dead-letter topic.
type moneyTopics struct {
	world  *money
	forger *moneyForger

	mu        sync.Mutex
	rand      *rand.Rand
	logs      map[moneyKey][]kafka.Record
	positions map[moneyKey]int // index of the record that the consumer reads next
	keys      []moneyKey
	parked    []kafka.Record
	published map[string]bool // ids of the published events
}

// moneyKey identifies the records that stay in order.
type moneyKey struct{ topic, key string }

func newMoneyTopics(m *money) *moneyTopics {
	return &moneyTopics{
		world: m, rand: rand.New(rand.NewPCG(m.seed, 2<<32)), //nolint:gosec // repeatable
		forger: &moneyForger{world: m, copies: make(map[string]bool), lies: make(map[string]bool)},
		logs:   make(map[moneyKey][]kafka.Record), positions: make(map[moneyKey]int), published: make(map[string]bool),
	}
}

// relay publishes the events of a database. It keeps their rows, for the checks at the end.
func (k *moneyTopics) relay(ctx context.Context, db *pgxpool.Pool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	published := make([]string, 0, len(k.published))
	for id := range k.published {
		published = append(published, id)
	}
	rows, _ := db.Query(ctx, `SELECT topic, key, payload, headers FROM outbox WHERE NOT event_id = ANY ($1::uuid[]) ORDER BY id`, published)
	records, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r kafka.Record, err error) {
		var headers []byte
		if err := row.Scan(&r.Topic, &r.Key, &r.Value, &headers); err != nil {
			return r, err
		}
		err = json.Unmarshal(headers, &r.Headers)
		r.EventID, r.Type = r.Headers[kafka.HeaderID], r.Headers[kafka.HeaderType]
		return r, err
	})
	if err != nil {
		k.world.violate("relay: %v", err)
		return
	}
	for _, r := range records {
		r = kafkatest.Signer().Sign(r)
		k.append(r)
		if k.world.faults.Load() && k.rand.IntN(10) == 0 {
			k.append(k.forger.changed(r, k.rand.IntN(3)))
		}
		if k.world.faults.Load() && k.rand.IntN(25) == 0 {
			return // the relay dies before it deletes the row
		}
		k.published[r.EventID] = true
	}
}

// append writes a record at the end of its topic.
func (k *moneyTopics) append(r kafka.Record) {
	key := moneyKey{r.Topic, string(r.Key)}
	if _, known := k.logs[key]; !known {
		k.keys = append(k.keys, key)
	}
	k.logs[key] = append(k.logs[key], r)
}

// delivery is a record on its way to its consumer.
type delivery struct {
	kafka.Record

	// end receives whether the record was handled. It is called with the lock held.
	end func(handled bool)
}

// take returns the next records of up to n keys of a topic.
func (k *moneyTopics) take(topic string, n int) (taken []delivery) {
	k.mu.Lock()
	defer k.mu.Unlock()
	faults := k.world.faults.Load()
	if i := slices.IndexFunc(k.parked, func(r kafka.Record) bool { return r.Topic == topic }); i >= 0 && (!faults || k.rand.IntN(15) == 0) {
		r := k.parked[i]
		k.parked = slices.Delete(k.parked, i, i+1)
		return []delivery{{r, func(handled bool) {
			if !handled {
				k.parked = append(k.parked, r)
			}
		}}}
	}
	for _, i := range k.rand.Perm(len(k.keys)) {
		key := k.keys[i]
		if key.topic != topic {
			continue
		}
		for k.positions[key] < len(k.logs[key]) && !k.forger.admits(k.logs[key][k.positions[key]]) {
			k.positions[key]++
		}
		position := k.positions[key]
		if position >= len(k.logs[key]) {
			continue
		}
		if faults && k.rand.IntN(50) == 0 {
			k.parked, k.positions[key] = append(k.parked, k.logs[key][position]), position+1
			continue
		}
		taken = append(taken, delivery{k.logs[key][position], func(handled bool) {
			if !handled {
				return
			}
			k.positions[key] = max(k.positions[key], position+1)
			if k.world.faults.Load() && k.rand.IntN(10) == 0 {
				k.positions[key] = max(0, k.positions[key]-1-k.rand.IntN(2))
			}
		}})
		if len(taken) == n {
			break
		}
	}
	return taken
}

// deliver hands records of a topic to a replica of its consumer. It returns false when there are
// none, or they must be delivered again.
func (k *moneyTopics) deliver(ctx context.Context, topic string) bool {
	replica := k.world.provider.pick(moneyReplicas)
	taken := k.take(topic, 1+k.world.provider.pick(4))
	if len(taken) == 0 {
		return false
	}
	handled := 0
	if topic == events.Payments {
		p := k.world.ticket(replica)
		for handled < len(taken) {
			batch := k.batch(taken[handled:])
			if !k.report(p.moneyProcess, batch[0], p.code.Consume(ctx, batch)) {
				break
			}
			handled += len(batch)
		}
	} else {
		p := k.world.payment(replica)
		for handled < len(taken) && k.report(p.moneyProcess, taken[handled].Record, p.code.Consume(ctx, taken[handled].Record)) {
			handled++
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, d := range taken {
		d.end(i < handled)
	}
	return handled > 0
}

// batch returns the records that are handled together: those before a lie, or a lie alone, as a
// consumer finds the record that cannot be handled.
func (k *moneyTopics) batch(taken []delivery) (records []kafka.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, d := range taken {
		lie := k.forger.lies[d.EventID]
		if lie && i > 0 {
			break
		}
		if records = append(records, d.Record); lie {
			break
		}
	}
	return records
}

// report adds a violation if a consumer cannot handle a genuine record, which no run may produce.
// handled is true if the consumer may continue behind the record.
func (k *moneyTopics) report(p *moneyProcess, r kafka.Record, err error) (handled bool) {
	if p.dead.Load() {
		return false
	}
	k.mu.Lock()
	lie := k.forger.lies[r.EventID]
	k.mu.Unlock()
	if lie && kafka.IsPoison(err) {
		k.world.count("lie refused: " + r.Type)
		return true
	}
	if err != nil && (kafka.IsPoison(err) || errs.From(err).Kind == errs.Internal) {
		k.world.violate("a record cannot be handled by %s: %v", p.name, err)
	}
	return err == nil
}

// unhandled returns the number of records that were not handled.
func (k *moneyTopics) unhandled() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, log := range k.logs {
		n += len(log) - k.positions[key]
	}
	return n + len(k.parked)
}

// forget empties the inbox of a database, whose rows are deleted at some age.
func (k *moneyTopics) forget(ctx context.Context, db *pgxpool.Pool) {
	if _, err := db.Exec(ctx, `DELETE FROM processed_events`); err != nil {
		k.world.violate("empty the inbox: %v", err)
	}
}
