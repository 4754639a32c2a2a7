package audit

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"urr.guru/scripts/platform"
)

// Sample reads the current state of a sale: tier 2's sets and the seats. Fields that the stores do
// not contain (Seconds, Arrived, Serving) are zero.
func (s *Stores) Sample(ctx context.Context, eventID string) (Sample, error) {
	var out Sample
	now, err := s.redis.Time(ctx).Result()
	if err != nil {
		return out, fmt.Errorf("sample %s: %w", eventID, unavailable(redisStore, err))
	}
	unexpired := "(" + strconv.FormatInt(now.UnixMilli(), 10)
	var waiting, parked, active, old *redis.IntCmd
	_, err = s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		waiting = p.ZCard(ctx, key(eventID, "queue"))
		parked = p.ZCard(ctx, key(eventID, "parked"))
		active = p.ZCount(ctx, key(eventID, "active"), unexpired, "+inf")
		old = p.ZCount(ctx, key(eventID, "old"), unexpired, "+inf")
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("sample %s: %w", eventID, unavailable(redisStore, err))
	}
	out.Waiting, out.Parked, out.Active = waiting.Val(), parked.Val(), active.Val()+old.Val()
	err = s.ticket.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE status = 'SOLD'), count(*) FILTER (WHERE status = 'HELD' AND held_until > now())
		FROM seats WHERE event_id = $1`, eventID).Scan(&out.Sold, &out.Held)
	if err != nil {
		return out, fmt.Errorf("sample %s: %w", eventID, unavailable(postgresStore(platform.Ticket), err))
	}
	return out, nil
}

func key(eventID, name string) string { return "{" + eventID + "}:" + name }

// streamPage is the number of admissions per read.
const streamPage = 5000

// Admissions reads the order of admissions from the line's own record (its last 100,000 entries).
func (s *Stores) Admissions(ctx context.Context, eventID string) ([]Admission, error) {
	return ReadAdmissions(ctx, s.redis, eventID)
}

// ReadAdmissions is Stores.Admissions by any connection to queue's Redis.
func ReadAdmissions(ctx context.Context, client redis.Cmdable, eventID string) ([]Admission, error) {
	var out []Admission
	for from := "-"; ; {
		page, err := client.XRangeN(ctx, key(eventID, "admitted"), from, "+", streamPage).Result()
		if err != nil {
			return nil, fmt.Errorf("admissions of %s: %w", eventID, unavailable(redisStore, err))
		}
		for _, m := range page {
			a, err := admission(m.Values)
			if err != nil {
				return nil, fmt.Errorf("admission %s of %s: %w", m.ID, eventID, err)
			}
			out = append(out, a)
		}
		if len(page) < streamPage {
			return out, nil
		}
		from = "(" + page[len(page)-1].ID
	}
}

func admission(values map[string]any) (Admission, error) {
	text := func(name string) string {
		v, _ := values[name].(string)
		return v
	}
	a := Admission{Slot: text("slot"), User: text("user")}
	for name, field := range map[string]*int64{"score": &a.Score, "tick": &a.Tick, "since": &a.PresentSince, "at": &a.At} {
		n, err := strconv.ParseInt(text(name), 10, 64)
		if err != nil {
			return a, fmt.Errorf("%s: %w", name, err)
		}
		*field = n
	}
	return a, nil
}
