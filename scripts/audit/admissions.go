package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"urr.guru/scripts/platform"
)

// SaleNumbers has the sizes of one event's waiting line and the numbers of its held and sold seats.
type SaleNumbers struct {
	// Waiting, Parked and Active count users in the event's line (tier 2): those who wait, those whose
	// place is put aside, and those with an unexpired slot, which may be of an ended epoch.
	Waiting, Parked, Active int64
	// Held and Sold are numbers of seats.
	Held, Sold int64
}

// ReadNumbers reads the sizes of an event's line from Redis, and the numbers of its held and sold
// seats from PostgreSQL.
func (s *Stores) ReadNumbers(ctx context.Context, eventID string) (SaleNumbers, error) {
	var out SaleNumbers
	now, err := s.redis.Time(ctx).Result()
	if err != nil {
		return out, fmt.Errorf("sample %s: %w", eventID, unavailable(redisStore, err))
	}
	unexpired := "(" + strconv.FormatInt(now.UnixMilli(), 10)
	var waiting, parked, active, old *redis.IntCmd
	_, err = s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		waiting = p.ZCard(ctx, lineKey(eventID, "queue"))
		parked = p.ZCard(ctx, lineKey(eventID, "parked"))
		active = p.ZCount(ctx, lineKey(eventID, "active"), unexpired, "+inf")
		old = p.ZCount(ctx, lineKey(eventID, "old"), unexpired, "+inf")
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

func lineKey(eventID, name string) string { return "{" + eventID + "}:" + name }

// streamPage is the most records that one command reads from a stream.
const streamPage = 500

func (s *Stores) Admissions(ctx context.Context, eventID string) ([]Admission, error) {
	return ReadAdmissions(ctx, s.redis, eventID)
}

// ReadAdmissions reads the admissions to an event's shop, the earliest first. The queue service
// keeps at least the last 100,000 of them in a stream in Redis.
func ReadAdmissions(ctx context.Context, client redis.Cmdable, eventID string) ([]Admission, error) {
	var out []Admission
	for start := "-"; ; {
		page, err := client.XRangeN(ctx, lineKey(eventID, "admitted"), start, "+", streamPage).Result()
		if err != nil {
			return nil, fmt.Errorf("admissions of %s: %w", eventID, unavailable(redisStore, err))
		}
		for _, m := range page {
			all, err := decodeAdmissions(m.Values)
			if err != nil {
				return nil, fmt.Errorf("admissions %s of %s: %w", m.ID, eventID, err)
			}
			out = append(out, all...)
		}
		if len(page) < streamPage {
			return out, nil
		}
		start = "(" + page[len(page)-1].ID
	}
}

// decodeAdmissions decodes one record of the stream {eventId}:admitted. Its field `slots` has two
// lines per admission: the user and the slot. Its field `since` has two lines per user whose score
// is not the time of joining: the user and the time of joining.
func decodeAdmissions(values map[string]any) (admissions []Admission, err error) {
	text := func(name string) string {
		v, _ := values[name].(string)
		return v
	}
	number := func(s string) (n int64) {
		n, failed := strconv.ParseInt(s, 10, 64)
		err = errors.Join(err, failed)
		return n
	}
	tick, issuedAt := number(text("tick")), number(text("at"))
	since := map[string]int64{}
	for user, ms := range linePairs(text("since")) {
		since[user] = number(ms)
	}
	for user, slot := range linePairs(text("slots")) {
		id, afterID, _ := strings.Cut(slot, " ")
		score, _, _ := strings.Cut(afterID, " ")
		a := Admission{Slot: id, User: user, Score: number(score), Tick: tick, At: issuedAt}
		var ok bool
		if a.PresentSince, ok = since[user]; !ok {
			a.PresentSince = a.Score / 1000
		}
		admissions = append(admissions, a)
	}
	if len(admissions) == 0 && err == nil {
		err = errors.New("no slots")
	}
	return admissions, err
}

// linePairs iterates over the lines of a text, two at a time.
func linePairs(text string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for pair := range slices.Chunk(strings.Split(text, "\n"), 2) {
			if len(pair) < 2 || !yield(pair[0], pair[1]) {
				return
			}
		}
	}
}

// Admission is one admitted user in the stream {eventId}:admitted, with the issued slot.
type Admission struct {
	Slot, User string
	// Score is the user's sort key in the line, in µs; users with lower scores are admitted first.
	Score int64
	// Tick is the time when the slot was issued, in whole seconds of Redis's clock.
	Tick int64
	// PresentSince is when the user last joined or rejoined the line, and At when the slot was issued.
	// Both are in Unix milliseconds.
	PresentSince, At int64
}

// Inversion is a violation of the line's order: Overtaken was waiting with a lower score when
// Overtaker was admitted, but was admitted at a later tick.
type Inversion struct {
	Overtaken, Overtaker Admission
}

// Inversions returns every user who was overtaken in the line, with one user who overtook. The
// admissions must be in the stream's order.
//
// User A is overtaken if a user B with a higher score was admitted at an earlier tick, and A was
// already in the line then. Within a tick, the order does not matter.
func Inversions(admissions []Admission) []Inversion {
	var out []Inversion
	for i, a := range admissions {
		for j := i - 1; j >= 0; j-- {
			b := admissions[j]
			if b.At < a.PresentSince {
				break // A joined after b and all earlier users were admitted
			}
			if b.Tick < a.Tick && b.Score > a.Score {
				out = append(out, Inversion{Overtaken: a, Overtaker: b})
				break
			}
		}
	}
	return out
}

// roundSpan is the number of scores that a round of tier 1 can give. Such a score is the round's
// start plus a position. For positions up to a million, it is less than all scores by arrival time.
const roundSpan = 1_000_000

// LatestRound reads the latest round of the waiting room (tier 1) that is known to the event's line
// (tier 2), since a visitor came from it. It returns 0 if there is none.
func (s *Stores) LatestRound(ctx context.Context, eventID string) (int64, error) {
	round, err := s.redis.HGet(ctx, lineKey(eventID, "line"), "round").Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("round of %s: %w", eventID, unavailable(redisStore, err))
	}
	return round, nil
}

// ExtraTurns returns the admissions by a second score from the same round. A user has only one
// score per round: a visitor who did not use a slot must come back with the same score.
func ExtraTurns(admissions []Admission, round int64) []Admission {
	var extra []Admission
	firstScores := map[string]int64{}
	for _, a := range admissions {
		if a.Score <= round || a.Score > round+roundSpan {
			continue
		}
		if first, seen := firstScores[a.User]; !seen {
			firstScores[a.User] = a.Score
		} else if first != a.Score {
			extra = append(extra, a)
		}
	}
	return extra
}
