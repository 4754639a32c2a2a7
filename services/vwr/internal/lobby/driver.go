package lobby

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/loop"
	"urr.guru/services/vwr/internal/room"
)

const (
	scanInterval = time.Second // the time between two scans of the unfinished lobbies
	// workTimeout limits the work on a lobby in one scan, mostly the listing of a million entries.
	workTimeout  = 5 * time.Minute
	writeTimeout = 3 * time.Second // the time limit of one write
	// voidLead is the time before a lobby's result can be known in which the lobby is not voided any
	// more. It allows for a slow clock and for the time of the write.
	voidLead = 10 * time.Second
	// countInterval is the time between two counts of a lobby's entries, each a read of all groups.
	countInterval = 30 * time.Second
	maxSteps      = 10 // the most steps of one lobby in one scan
)

// Driver moves every lobby from phase to phase. Every replica runs a Driver.
type Driver struct {
	service *Service
	store   Store
	now     func() time.Time
	log     *slog.Logger
	stats   DriverStats

	working sync.WaitGroup

	mu      sync.Mutex
	busy    map[Key]bool // lobbies on which a goroutine is working
	states  map[Key]LobbyProgress
	failing map[Key]string // the last error of each lobby
	joined  map[Key]entryCount
}

// entryCount is how many entries a lobby had, and when.
type entryCount struct {
	entries int64
	at      time.Time
}

// LobbyProgress is the progress of a lobby, for metrics and alerts.
type LobbyProgress struct {
	Phase      fairdraw.Phase
	Joined     int64
	Late       time.Duration // how long after the room's start the lobby is still not shuffled
	KeyMissing bool
	Void       bool // the lobby is void and its room is open, so that nobody is served
}

// NewDriver returns a Driver. store must be the one that the service uses.
func NewDriver(s *Service, store Store, log *slog.Logger) *Driver {
	return &Driver{
		service: s, store: store, now: s.now, log: log,
		busy: make(map[Key]bool), states: make(map[Key]LobbyProgress), failing: make(map[Key]string), joined: make(map[Key]entryCount),
	}
}

// Run scans the lobbies periodically until ctx ends. A lobby whose step takes long, such as listing
// a million entries, delays no other lobby.
func (d *Driver) Run(ctx context.Context) error {
	defer d.working.Wait()
	return loop.Every(ctx, scanInterval, func(ctx context.Context) {
		if err := d.startScan(ctx); err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "lobbies not read, trying again", "error", err)
		}
	})
}

// ScanOnce scans the lobbies once, and returns when every step that can be taken now was taken.
func (d *Driver) ScanOnce(ctx context.Context) error {
	err := d.startScan(ctx)
	d.working.Wait()
	return err
}

// startScan starts work on every unfinished lobby, and on those of active rooms, whose positions
// are loaded after the shuffle. It skips lobbies on which an earlier scan is still working.
func (d *Driver) startScan(ctx context.Context) error {
	readCtx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	keys, err := d.store.Unfinished.Unfinished(readCtx)
	if err != nil {
		return err
	}
	wanted := make(map[Key]bool) // true for an unfinished lobby
	for _, st := range d.service.cache.All() {
		if st.Active && st.Lobby.Exists() {
			wanted[Key{st.EventID, st.Round}] = false
		}
	}
	for _, k := range keys {
		wanted[k] = true
	}
	d.retainLobbies(wanted)
	for k, unfinished := range wanted {
		if d.acquireLobby(k) {
			d.working.Go(func() {
				defer d.releaseLobby(k)
				ctx, cancel := context.WithTimeout(ctx, workTimeout)
				defer cancel()
				d.advanceLobby(ctx, k, unfinished)
			})
		}
	}
	return nil
}

// advanceLobby takes the steps that an unfinished lobby can take now, and loads the positions of a
// shuffled lobby whose room is active.
func (d *Driver) advanceLobby(ctx context.Context, k Key, unfinished bool) {
	var err error
	if unfinished {
		var p LobbyProgress
		p, err = d.runSteps(ctx, k)
		d.mu.Lock()
		d.states[k] = p
		d.mu.Unlock()
	}
	if st, ok := d.service.cache.Get(k.EventID); ok && st.Active && st.Round == k.Round && st.Lobby.Shuffled && d.service.memory.get(k).ranks == nil {
		err = errors.Join(err, d.service.loadRanks(ctx, k))
	}
	d.logFailure(ctx, k, err)
}

// acquireLobby marks a lobby as busy. It returns false if an earlier scan is still working on it.
func (d *Driver) acquireLobby(k Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[k] {
		return false
	}
	d.busy[k] = true
	return true
}

func (d *Driver) releaseLobby(k Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, k)
}

// retainLobbies forgets lobbies that are not in wanted, and the progress of finished ones.
func (d *Driver) retainLobbies(wanted map[Key]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.states, func(k Key, _ LobbyProgress) bool { return !wanted[k] })
	maps.DeleteFunc(d.joined, func(k Key, _ entryCount) bool { return !wanted[k] })
	unwanted := func(k Key) bool {
		_, ok := wanted[k]
		return !ok && !d.busy[k]
	}
	maps.DeleteFunc(d.failing, func(k Key, _ string) bool { return unwanted(k) })
	wantedOrBusy := func(k Key) bool { return !unwanted(k) }
	d.service.memory.retain(wantedOrBusy)
	d.service.terms.retain(wantedOrBusy)
}

// logFailure logs why work on a lobby failed, once per reason, since it is retried each second.
func (d *Driver) logFailure(ctx context.Context, k Key, err error) {
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
		d.log.WarnContext(ctx, "lobby not advanced, trying again", "event", k.EventID, "round", int64(k.Round), "error", err)
	}
}

// runSteps takes steps of one lobby until none is due.
func (d *Driver) runSteps(ctx context.Context, k Key) (p LobbyProgress, err error) {
	for range maxSteps {
		var r lobbySnapshot
		if r, err = d.readSnapshot(ctx, k); err != nil {
			return p, err
		}
		more, err := r.takeNextStep(ctx)
		p = r.progress(ctx)
		switch {
		case errors.Is(err, room.ErrStale): // another replica has taken the step
		case err != nil || !more:
			return p, err
		}
	}
	return p, nil
}
