package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/google/uuid"
)

// ErrDifferent means that the stored acts are not those that gateways have signed.
var ErrDifferent = errors.New("the audit log is not what gateways have recorded")

// Source reads the acts from the topic in which gateways have recorded them.
type Source interface {
	// ReadActs passes all acts and outcomes to keep, those of one act in the order of their records. The
	// topic may have forgotten acts before since.
	ReadActs(ctx context.Context, keep func(acts []Act, ended []Ended)) (since time.Time, err error)
	// Refused returns how many records no gateway has signed.
	Refused() int64
}

// stillComing is how long before the comparison acts and outcomes may be on their way to the store.
const stillComing = 5 * time.Minute

// maxShown is the most differences that are shown; all are counted.
const maxShown = 20

// verification compares acts. It takes about half a kilobyte of memory for each.
type verification struct {
	signed       map[uuid.UUID]*Act // those that were not found yet; bodies are digests
	since, until time.Time          // what is compared
	differences  int
	out          io.Writer
}

// Verify compares the store with the source, and writes what differs: acts that are missing, that were
// changed, or that no gateway has recorded. It fails with ErrDifferent if there is anything. It does not
// compare acts that began or ended in the last minutes before now, and those that the topic may have
// forgotten. Acts older than retention may have been deleted.
func Verify(ctx context.Context, source Source, store Store, retention time.Duration, now time.Time, out io.Writer) (err error) {
	v := &verification{signed: map[uuid.UUID]*Act{}, until: now.Add(-stillComing), out: out}
	if v.since, err = source.ReadActs(ctx, v.addSigned); err != nil {
		return err
	}
	signed, compared := len(v.signed), 0
	for f := (Filter{Limit: 1000}); ; {
		acts, err := store.List(ctx, f)
		if err != nil {
			return err
		}
		for i := range acts {
			if v.compare(&acts[i]) {
				compared++
			}
		}
		if len(acts) < f.Limit {
			break
		}
		f.Before = Position{At: acts[len(acts)-1].At, ID: acts[len(acts)-1].ID}
	}
	for id, a := range v.signed {
		if v.isCompared(a) && a.At.After(now.Add(-retention)) {
			v.report(id, "is signed, and not stored")
		}
	}
	fmt.Fprintf(out, "%d acts in the topic, %d stored acts compared, %d differences\n", signed, compared, v.differences)
	if n := source.Refused(); n > 0 {
		fmt.Fprintf(out, "%d records in the topic are not signed by a gateway; they have changed nothing\n", n)
	}
	if v.differences > 0 {
		return ErrDifferent
	}
	return nil
}

// addSigned merges acts and outcomes as the store does: the first of each counts.
func (v *verification) addSigned(acts []Act, ended []Ended) {
	for _, a := range acts {
		known := v.signed[a.ID]
		switch a.Body = digest(a.Body); {
		case known == nil:
			v.signed[a.ID] = &a
		case known.UserID == "":
			outcome := Ended{ActID: a.ID, Outcome: *known.Outcome, EventID: known.EventID, BodySHA256: known.BodySHA256}
			*known = a
			known.end(outcome)
		}
	}
	for _, e := range ended {
		known := v.signed[e.ActID]
		if known == nil {
			known = &Act{ID: e.ActID, At: e.At, Body: digest("")}
			v.signed[e.ActID] = known
		}
		if known.Outcome == nil {
			known.end(e)
		}
	}
}

// end adds an outcome to an act without one.
func (a *Act) end(e Ended) {
	a.Outcome = &e.Outcome
	if a.EventID == "" {
		a.EventID = e.EventID
	}
	if a.BodySHA256 == "" {
		a.BodySHA256 = e.BodySHA256
	}
}

// isCompared reports whether an act is neither too old nor too new.
func (v *verification) isCompared(a *Act) bool {
	return !a.At.Before(v.since) && !a.At.After(v.until) && (a.Outcome == nil || !a.Outcome.At.After(v.until))
}

// compare reports false for an act that is not compared.
func (v *verification) compare(stored *Act) bool {
	signed := v.signed[stored.ID]
	delete(v.signed, stored.ID)
	if !v.isCompared(stored) || signed != nil && !v.isCompared(signed) {
		return false
	}
	stored.Body = digest(stored.Body)
	switch {
	case signed == nil:
		v.report(stored.ID, "is stored, and no gateway has recorded it")
	case !reflect.DeepEqual(signed.comparable(), stored.comparable()):
		v.report(stored.ID, "was changed")
	}
	return true
}

// comparable returns the act with times as PostgreSQL stores them.
func (a *Act) comparable() Act {
	c := *a
	c.At = c.At.UTC().Truncate(time.Microsecond)
	if c.Outcome != nil {
		o := *c.Outcome
		o.At, c.Outcome = o.At.UTC().Truncate(time.Microsecond), &o
	}
	return c
}

func (v *verification) report(id uuid.UUID, what string) {
	if v.differences++; v.differences <= maxShown {
		fmt.Fprintf(v.out, "act %s %s\n", id, what)
	}
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
