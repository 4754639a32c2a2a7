package lobby

import (
	"context"
	"errors"
	"fmt"
	"time"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/services/vwr/internal/room"
)

// lobbySnapshot is the stored state of one lobby, by which the driver chooses the next step.
type lobbySnapshot struct {
	*Driver

	shuffle   Shuffle
	terms     *terms
	counters  room.Counters
	current   bool                // the lobby's round is the active one
	statement *fairdraw.Statement // nil: none is stored
	now       time.Time
	missing   error // not nil if this replica lacks a key of the lobby
}

func (d *Driver) readSnapshot(ctx context.Context, k Key) (lobbySnapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	r := lobbySnapshot{Driver: d}
	var err error
	var found bool
	if r.shuffle, found, err = d.store.Shuffles.Shuffle(ctx, k); err != nil {
		return r, err
	}
	if !found {
		return r, errors.Join(errNoShuffle, d.store.Unfinished.RemoveUnfinished(ctx, k))
	}
	if r.terms, err = parseTerms(&r.shuffle); err != nil {
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
	r.missing = d.service.keys.Load().checkTerms(r.terms)
	r.now = d.now()
	return r, nil
}

// takeNextStep takes the lobby's next step if it is due. more means that another step may be due.
func (r *lobbySnapshot) takeNextStep(ctx context.Context) (more bool, err error) {
	c, s := &r.terms.commitment, &r.shuffle
	switch {
	case s.isFinal():
		return false, r.finishLobby(ctx)
	case r.positionsIssuedEarly() && s.Signature == "":
		r.log.ErrorContext(ctx, "positions were issued too early, so the lobby is void", "event", s.EventID, "issued", r.counters.Issued)
		return true, r.voidShuffle(ctx)
	case !r.current && r.now.Before(r.resultKnownAt().Add(-voidLead)):
		return true, r.voidShuffle(ctx)
	case r.now.Before(c.Cutoff().Add(r.terms.closeGrace())):
		return false, nil
	case s.Statement == "":
		return r.closeJoining(ctx)
	case r.current && !r.counters.Lobby.Sized:
		return true, r.writeWithTimeout(ctx, func(ctx context.Context) error { return r.store.Unfinished.SetSize(ctx, s.Key, r.statement.Count) })
	case s.Signature == "":
		return r.signStatement(ctx)
	}
	return r.publishResult(ctx)
}

func (r *lobbySnapshot) writeWithTimeout(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return write(ctx)
}

func (r *lobbySnapshot) voidShuffle(ctx context.Context) error {
	return r.writeWithTimeout(ctx, func(ctx context.Context) error { return r.store.Steps.Void(ctx, r.shuffle.Key, r.now.UnixMilli()) })
}

// positionsIssuedEarly reports whether positions were issued or served before the entries were
// counted, which no replica should do. Then SetSize fails, and there will never be a result.
func (r *lobbySnapshot) positionsIssuedEarly() bool {
	return r.current && !r.counters.Lobby.Sized && (r.counters.Issued > 0 || r.counters.Serving > 0)
}

// voidWhileRoomOpen reports whether the lobby is void and its room is open. Then nobody is served.
func (r *lobbySnapshot) voidWhileRoomOpen() bool {
	return r.shuffle.VoidedAt != 0 && r.current && !r.counters.Lobby.Shuffled
}

// resultKnownAt returns the earliest time at which anybody can know the result. Before this time
// the lobby can be voided.
func (r *lobbySnapshot) resultKnownAt() time.Time {
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

// closeJoining ends joining and stores the statement about the entries.
func (r *lobbySnapshot) closeJoining(ctx context.Context) (more bool, err error) {
	if err := r.store.Entries.CloseJoining(ctx, r.shuffle.Key); err != nil {
		return false, err
	}
	failpoint.Hit("vwr.lobby_closed")
	entries, err := r.service.loadEntries(ctx, r.shuffle.Key, nil)
	if err != nil {
		return false, err
	}
	return r.storeStatement(ctx, entries.Root(), int64(entries.Len()))
}

// storeStatement stores the statement, with the present time, in place of an unsigned one. If the
// root could not be public in time for the next beacon round, it waits until that round has passed:
// a statement has a list of the rounds that it has missed.
func (r *lobbySnapshot) storeStatement(ctx context.Context, root fairdraw.Hash, count int64) (more bool, err error) {
	now := r.Driver.now()
	if _, timely := r.terms.beaconRoundAt(now); !timely {
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
	err = r.writeWithTimeout(ctx, func(ctx context.Context) error {
		return r.store.Steps.SetStatement(ctx, r.shuffle.Key, r.shuffle.Statement, string(text))
	})
	failpoint.Hit("vwr.lobby_stated")
	return true, err
}

// signStatement signs the stored statement, which makes it public. If that would be too late for
// the statement's beacon round, it replaces the statement, which nobody has seen, by one with a
// later round.
func (r *lobbySnapshot) signStatement(ctx context.Context) (more bool, err error) {
	signed, err := fairdraw.SignStatement(r.service.keys.Load().Statements, &r.terms.commitment, []byte(r.shuffle.Statement))
	if err != nil {
		return false, err
	}
	// The timeout starts before the clock is read, so that the write ends within the margin.
	writing, cancel := context.WithTimeout(ctx, min(writeTimeout, r.terms.signTimeout()))
	defer cancel()
	round, timely := r.terms.beaconRoundAt(r.Driver.now())
	if !timely || round != r.statement.Round {
		return r.storeStatement(ctx, r.statement.Root, r.statement.Count)
	}
	err = r.store.Steps.SetSignature(writing, r.shuffle.Key, signed.Statement, signed.Signature)
	failpoint.Hit("vwr.lobby_signed")
	return true, err
}

// publishResult stores the value of the beacon's round, and publishes the result at the start.
func (r *lobbySnapshot) publishResult(ctx context.Context) (more bool, err error) {
	c := &r.terms.commitment
	seed, known := r.service.keys.Load().Seed(c, r.terms.nonce)
	// A seed that is not revealed in time is replaced by zeros, even if its key is found again:
	// whoever has the key could otherwise choose between two known results.
	withheld := c.Beacon != nil && !r.now.Before(c.Beacon.TimeOf(c.ZeroSeedRound(r.statement.Round)))
	if !known || withheld {
		seed = fairdraw.Hash{}
	}
	if c.Beacon != nil {
		round := r.statement.Round
		if withheld {
			round = c.ZeroSeedRound(round)
		}
		if r.shuffle.Beacon == nil || r.shuffle.Beacon.Round != round {
			return r.storeBeaconRound(ctx, round)
		}
	}
	early := r.now.Before(c.Announced())
	if !known && !withheld {
		if early {
			return false, nil
		}
		return false, r.missing
	}
	if early && !r.current {
		return false, nil // nobody asks for positions
	}
	// Every replica computes the positions before the start, when all users ask for them at once.
	revealed := r.shuffle
	revealed.Seed = seed.String() // as SetResult will store it
	computed, err := r.service.computeRanks(ctx, &revealed, r.terms, r.statement)
	if err != nil || early {
		return false, err
	}
	err = r.writeWithTimeout(ctx, func(ctx context.Context) error {
		return r.store.Steps.SetResult(ctx, r.shuffle.Key, revealed.Seed, computed.orderHash, r.shuffle.Beacon)
	})
	failpoint.Hit("vwr.lobby_revealed")
	return true, err
}

// storeBeaconRound fetches and stores the value of a beacon round, once it is published.
func (r *lobbySnapshot) storeBeaconRound(ctx context.Context, round uint64) (more bool, err error) {
	chain := r.terms.commitment.Beacon.Chain
	if r.now.Before(chain.TimeOf(round)) {
		return false, nil
	}
	got, err := r.service.beacons.Get(ctx, chain, round)
	if err != nil && ctx.Err() == nil && !r.now.Before(r.terms.commitment.BeaconLostAt(r.statement.Round)) {
		r.log.ErrorContext(ctx, "the beacon has ended, so the lobby is void", "event", r.shuffle.EventID, "error", err)
		return true, r.voidShuffle(ctx)
	}
	if errors.Is(err, beacon.ErrNotPublished) {
		return false, nil
	}
	if err != nil {
		r.stats.BeaconFailures.Add(1)
		return false, err
	}
	err = r.writeWithTimeout(ctx, func(ctx context.Context) error { return r.store.Steps.SetBeaconRound(ctx, r.shuffle.Key, got) })
	failpoint.Hit("vwr.lobby_valued")
	return true, err
}

// finishLobby records in the room's counters that the lobby is shuffled, and removes the lobby from
// the list of unfinished ones. A void lobby whose room is open serves nobody. It stays in the list,
// so that the alert continues.
func (r *lobbySnapshot) finishLobby(ctx context.Context) error {
	if r.voidWhileRoomOpen() {
		r.service.memory.update(r.shuffle.Key, func(m *cachedLobby) { m.void = true })
		return nil
	}
	if r.shuffle.Seed != "" && r.current && !r.counters.Lobby.Shuffled {
		err := r.writeWithTimeout(ctx, func(ctx context.Context) error { return r.store.Unfinished.SetShuffled(ctx, r.shuffle.Key) })
		if err != nil {
			return err
		}
		failpoint.Hit("vwr.lobby_started")
		r.log.InfoContext(ctx, "lobby shuffled", "event", r.shuffle.EventID, "entries", r.statement.Count)
	}
	return r.writeWithTimeout(ctx, func(ctx context.Context) error { return r.store.Unfinished.RemoveUnfinished(ctx, r.shuffle.Key) })
}
