package lobby

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/loop"
	"urr.guru/services/vwr/internal/room"
)

const (
	// stepInterval is the time between two looks at the unfinished lobbies.
	stepInterval = time.Second
	// stepTimeout bounds one step of all lobbies. Listing a million entries takes most of it.
	stepTimeout = 5 * time.Minute
	// writeTimeout bounds one write.
	writeTimeout = 3 * time.Second
	// voidLead is how long before the result can be known a lobby can no longer be void: a clock may be
	// slow, and the write takes time.
	voidLead = 10 * time.Second
	// countInterval is the time between two counts of the entries of a lobby, which read every group.
	countInterval = 30 * time.Second
	// maxSteps bounds the steps of one lobby in one look.
	maxSteps = 10
)

// Driver leads every lobby through its phases. Every replica runs one.
type Driver struct {
	service *Service
	store   Store
	beacons Beacons
	now     func() time.Time
	log     *slog.Logger
	stats   Stats

	mu     sync.Mutex
	states map[Key]Progress
	// failing has the last error of each lobby.
	failing map[Key]string
	joined  map[Key]counted
}

// counted is the number of entries at a time.
type counted struct {
	entries int64
	at      time.Time
}

// Progress is how far a lobby is, for metrics and alerts.
type Progress struct {
	Phase      fairdraw.Phase
	Joined     int64
	Late       time.Duration // past the start, and not shuffled
	KeyMissing bool
	Void       bool // and the room is open, so nobody is served
}

// NewDriver returns a Driver.
func NewDriver(s *Service, b Beacons, log *slog.Logger) *Driver {
	return &Driver{
		service: s, store: s.store, beacons: b, now: s.now, log: log,
		states: make(map[Key]Progress), failing: make(map[Key]string), joined: make(map[Key]counted),
	}
}

// Run calls Step periodically until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	return loop.Every(ctx, stepInterval, func(ctx context.Context) {
		if err := d.Step(ctx); err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "lobbies not looked at, trying again", "error", err)
		}
	})
}

// Step leads every unfinished lobby as far as it can go now, and loads the positions of shuffled
// ones.
func (d *Driver) Step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	keys, err := d.store.Unfinished(ctx)
	if err != nil {
		return err
	}
	var work sync.WaitGroup
	states := make(map[Key]Progress, len(keys))
	var mu sync.Mutex
	for _, k := range keys {
		work.Go(func() {
			p, err := d.lead(ctx, k)
			d.report(ctx, k, err)
			mu.Lock()
			defer mu.Unlock()
			states[k] = p
		})
	}
	work.Wait()
	d.mu.Lock()
	d.states = states
	maps.DeleteFunc(d.failing, func(k Key, _ string) bool { _, unfinished := states[k]; return !unfinished })
	maps.DeleteFunc(d.joined, func(k Key, _ counted) bool { _, unfinished := states[k]; return !unfinished })
	d.mu.Unlock()
	return d.load(ctx)
}

// report logs why a lobby is not led on, once for each reason, since it is tried every second.
func (d *Driver) report(ctx context.Context, k Key, err error) {
	if ctx.Err() != nil {
		return
	}
	var reason string
	if err != nil {
		reason = err.Error()
		d.stats.Failures.Add(1)
	}
	d.mu.Lock()
	before := d.failing[k]
	d.failing[k] = reason
	d.mu.Unlock()
	if reason != "" && reason != before {
		d.log.WarnContext(ctx, "lobby not led on, trying again", "event", k.EventID, "round", int64(k.Round), "error", err)
	}
}

// lead repeats steps of one lobby until one has nothing to do.
func (d *Driver) lead(ctx context.Context, k Key) (p Progress, err error) {
	for range maxSteps {
		var r run
		if r, err = d.read(ctx, k); err != nil {
			return p, err
		}
		again, err := r.step(ctx)
		p = r.progress(ctx)
		switch {
		case errors.Is(err, room.ErrStale): // another replica was faster
		case err != nil || !again:
			return p, err
		}
	}
	return p, nil
}

// run is one lobby as it was read.
type run struct {
	*Driver

	shuffle  Shuffle
	terms    *terms
	counters room.Counters
	// current means that the lobby's round is the running one.
	current   bool
	statement *fairdraw.Statement // nil: none yet
	now       time.Time
	missing   error // a key that is not there
}

func (d *Driver) read(ctx context.Context, k Key) (run, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	r := run{Driver: d}
	var err error
	var found bool
	if r.shuffle, found, err = d.store.Shuffle(ctx, k); err != nil {
		return r, err
	}
	if !found {
		return r, errors.Join(errNoShuffle, d.store.Finish(ctx, k))
	}
	if r.terms, err = termsOf(&r.shuffle); err != nil {
		return r, err
	}
	if r.counters, found, err = d.service.rooms.Read(ctx, k.EventID); err != nil {
		return r, err
	}
	r.current = found && r.counters.Active && r.counters.Round == k.Round
	if r.shuffle.Statement != "" {
		st, err := fairdraw.ParseStatement([]byte(r.shuffle.Statement))
		if err != nil {
			return r, fmt.Errorf("statement of %s: %w", k, err)
		}
		r.statement = &st
	}
	r.missing = d.service.keys.Load().missing(r.terms)
	r.now = d.now()
	return r, nil
}

// step does the next thing that can be done now, and reports whether there may be another.
func (r *run) step(ctx context.Context) (again bool, err error) {
	c, s := &r.terms.commitment, &r.shuffle
	switch {
	case s.final():
		return false, r.finish(ctx)
	case r.spoiled() && s.Signature == "":
		r.log.ErrorContext(ctx, "positions were issued too early, so the lobby is void", "event", s.EventID, "issued", r.counters.Issued)
		return true, r.void(ctx)
	case !r.current && r.now.Before(r.decided().Add(-voidLead)):
		return true, r.void(ctx)
	case r.now.Before(c.Cutoff().Add(r.terms.closeGrace())):
		return false, nil
	case s.Statement == "":
		return r.state(ctx)
	case r.current && !r.counters.Lobby.Sized:
		return true, r.write(ctx, func(ctx context.Context) error { return r.store.Size(ctx, s.Key, r.statement.Count) })
	case s.Signature == "":
		return r.sign(ctx)
	}
	return r.draw(ctx)
}

func (r *run) write(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return write(ctx)
}

func (r *run) void(ctx context.Context) error {
	return r.write(ctx, func(ctx context.Context) error { return r.store.Void(ctx, r.shuffle.Key, r.now.UnixMilli()) })
}

// spoiled reports that positions were issued or served before the entries were counted, which only a
// replica of a release without lobbies does. Size fails from then on, so nothing gets signed, and no
// result is known at any time.
func (r *run) spoiled() bool {
	return r.current && !r.counters.Lobby.Sized && (r.counters.Issued > 0 || r.counters.Serving > 0)
}

// stuck reports a void lobby whose room is open.
func (r *run) stuck() bool { return r.shuffle.VoidedAt != 0 && r.current && !r.counters.Lobby.Shuffled }

// decided is when the result can be known: until then a lobby can end without one.
func (r *run) decided() time.Time {
	c := &r.terms.commitment
	switch {
	case c.Beacon == nil:
		return c.Announced()
	case r.statement != nil && r.shuffle.Signature != "":
		return c.Beacon.TimeOf(r.statement.Round)
	default:
		return c.Beacon.TimeOf(c.Round)
	}
}

// state ends joining and stores the statement about the entries.
func (r *run) state(ctx context.Context) (again bool, err error) {
	k := r.shuffle.Key
	if err := r.store.Close(ctx, k); err != nil {
		return false, err
	}
	failpoint.Hit("vwr.lobby_closed")
	entries, err := r.service.remember(ctx, k, nil)
	if err != nil {
		return false, err
	}
	return r.stateEntries(ctx, entries.Root(), int64(entries.Len()))
}

// stateEntries stores the statement, dated now, in place of one that was not signed. When it is too
// late for a round it waits until that is missed, since a statement lists the missed rounds.
func (r *run) stateEntries(ctx context.Context, root fairdraw.Hash, count int64) (again bool, err error) {
	now := r.Driver.now()
	if _, timely := r.terms.round(now); !timely {
		return false, nil
	}
	st, err := fairdraw.NewStatement(&r.terms.commitment, r.terms.hash, root, count, nil, now)
	if err != nil {
		return false, err
	}
	text, err := st.Text()
	if err != nil {
		return false, err
	}
	err = r.write(ctx, func(ctx context.Context) error {
		return r.store.State(ctx, r.shuffle.Key, r.shuffle.Statement, string(text))
	})
	failpoint.Hit("vwr.lobby_stated")
	return true, err
}

// sign signs the stored statement, which makes it public. If it would be public too late for its
// round, it is replaced: nobody has seen it, and a later round decides.
func (r *run) sign(ctx context.Context) (again bool, err error) {
	signed, err := fairdraw.SignStatement(r.service.keys.Load().Signing, &r.terms.commitment, []byte(r.shuffle.Statement))
	if err != nil {
		return false, err
	}
	// The deadline begins before the clock is read, so that the write ends within the margin.
	writing, cancel := context.WithTimeout(ctx, min(writeTimeout, r.terms.signTimeout()))
	defer cancel()
	round, timely := r.terms.round(r.Driver.now())
	if !timely || round != r.statement.Round {
		return r.stateEntries(ctx, r.statement.Root, r.statement.Count)
	}
	err = r.store.Sign(writing, r.shuffle.Key, signed.Statement, signed.Signature)
	failpoint.Hit("vwr.lobby_signed")
	return true, err
}

// draw fetches the beacon's round, and at the start publishes the result.
func (r *run) draw(ctx context.Context) (again bool, err error) {
	c, k := &r.terms.commitment, r.shuffle.Key
	seed, known := r.service.keys.Load().Seed(c, r.terms.nonce)
	// Without its key for a day the seed is replaced by zeros.
	if !known {
		seed = fairdraw.Hash{}
	}
	withheld := !known && c.Beacon != nil && !r.now.Before(c.Announced().Add(fairdraw.SeedDeadline))
	if c.Beacon != nil {
		round := r.statement.Round
		if withheld {
			round = c.ZeroSeedRound(round)
		}
		if r.shuffle.Beacon == nil || r.shuffle.Beacon.Round != round {
			return r.fetch(ctx, round)
		}
	}
	if r.now.Before(c.Announced()) {
		return false, nil
	}
	if !known && !withheld {
		return false, r.missing
	}
	entries, err := r.service.remember(ctx, k, r.statement)
	if err != nil {
		return false, err
	}
	r.shuffle.Seed = seed.String() // as it will be stored
	key, err := r.shuffle.key(r.terms.hash, r.statement.Root)
	if err != nil {
		return false, err
	}
	_, orderHash := shuffle(key, entries)
	err = r.write(ctx, func(ctx context.Context) error {
		return r.store.Reveal(ctx, k, r.shuffle.Seed, orderHash, r.shuffle.Beacon)
	})
	failpoint.Hit("vwr.lobby_revealed")
	return true, err
}

// fetch stores the value of a round once it is published.
func (r *run) fetch(ctx context.Context, round uint64) (again bool, err error) {
	chain := r.terms.commitment.Beacon.Chain
	if r.now.Before(chain.TimeOf(round)) {
		return false, nil
	}
	got, err := r.beacons.Get(ctx, chain, round)
	if errors.Is(err, beacon.ErrNotYet) {
		return false, nil
	}
	if err != nil {
		r.stats.BeaconFailures.Add(1)
		return false, err
	}
	err = r.write(ctx, func(ctx context.Context) error { return r.store.Value(ctx, r.shuffle.Key, got) })
	failpoint.Hit("vwr.lobby_valued")
	return true, err
}

// finish lets the counter move after a shuffle, then takes the lobby off the list. A void lobby whose
// room is open stays on the list: nobody is served there, and the alert goes on.
func (r *run) finish(ctx context.Context) error {
	if r.stuck() {
		return nil
	}
	if r.shuffle.Seed != "" && r.current && !r.counters.Lobby.Shuffled {
		err := r.write(ctx, func(ctx context.Context) error { return r.store.Start(ctx, r.shuffle.Key) })
		if err != nil {
			return err
		}
		failpoint.Hit("vwr.lobby_started")
		r.log.InfoContext(ctx, "lobby shuffled", "event", r.shuffle.EventID, "entries", r.statement.Count)
	}
	return r.write(ctx, func(ctx context.Context) error { return r.store.Finish(ctx, r.shuffle.Key) })
}
