package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/loop"
	"urr.guru/scripts/harness"
)

// entrant is a user who joins a lobby.
type entrant struct {
	user   string
	client *harness.Client

	mu       sync.Mutex
	entry    entryAnswer // empty: not joined
	position int64
}

// entryAnswer is the answer to a user's entry.
type entryAnswer struct {
	RequestID string `json:"requestId"`
	Ticket    string `json:"ticket"`
	Receipt   string `json:"receipt"`
}

func (l *lobbyRun) newEntrants() []*entrant {
	all := make([]*entrant, l.size.visitors)
	for i := range all {
		user := fmt.Sprintf("user-%d", i)
		all[i] = &entrant{user: user, client: l.Client(user)}
	}
	return all
}

// entered returns the users who have an entry.
func entered(all []*entrant) (joined []*entrant) {
	for _, e := range all {
		if e.entry.Receipt != "" {
			joined = append(joined, e)
		}
	}
	return joined
}

// join lets all users join at random times within at most two seconds, one in five of them by two
// calls at once, until each is answered.
func (l *lobbyRun) join(entrants []*entrant) (done <-chan struct{}) {
	var work sync.WaitGroup
	for i, e := range entrants {
		pause := time.Duration(l.below(int(min(l.size.open/2, 2*time.Second))))
		for range 1 + i%5/4 {
			work.Go(func() {
				loop.Sleep(l.t.Context(), pause)
				l.joinOne(e)
			})
		}
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		work.Wait()
	}()
	return finished
}

// joinOne repeats the call until it is answered. All answers to a user must be the same.
func (l *lobbyRun) joinOne(e *entrant) {
	for l.t.Context().Err() == nil {
		a, err := e.client.Call(l.t.Context(), http.MethodPost, "/vwr-api/vwr/lobby/"+l.eventID, map[string]any{})
		switch {
		case err == nil && a.Status == http.StatusOK:
			var got entryAnswer
			if err := a.Decode(&got); err != nil {
				l.t.Error(err)
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.entry.RequestID != "" && (e.entry.RequestID != got.RequestID || e.entry.Receipt != got.Receipt) {
				l.t.Errorf("%s was told the entries %s and %s", e.user, e.entry.RequestID, got.RequestID)
			}
			e.entry = got
			return
		case err == nil && a.Code() == "LOBBY_CLOSED":
			return
		}
		loop.Sleep(l.t.Context(), 50*time.Millisecond)
	}
}

// awaitPositions waits until all entries have their positions.
func (l *lobbyRun) awaitPositions(entrants []*entrant) {
	l.t.Helper()
	for _, e := range entered(entrants) {
		l.awaitPosition(e)
	}
}

func (l *lobbyRun) awaitPosition(e *entrant) {
	l.t.Helper()
	l.Eventually(func(ctx context.Context) error {
		client := e.client.With("X-Vwr-Ticket", e.entry.Ticket)
		a, err := client.Call(ctx, http.MethodGet, "/vwr-api/vwr/check/"+l.eventID+"/"+e.entry.RequestID, nil)
		if err != nil {
			return err
		}
		var got struct {
			Position int64 `json:"position"`
		}
		if err := a.Decode(&got); err != nil {
			return err
		}
		if a.Status != http.StatusOK || got.Position == 0 {
			return fmt.Errorf("%s has no position: %d %s", e.user, a.Status, a.Body)
		}
		e.position = got.Position
		return nil
	})
}

// lateArrivals asks for positions after the start while a replica is killed, twice per visitor.
func (l *lobbyRun) lateArrivals() []int64 {
	l.t.Helper()
	all := make([]int64, l.size.late)
	var work sync.WaitGroup
	for i := range all {
		client := l.Visitor()
		work.Go(func() {
			first := l.assign(client)
			if again := l.assign(client); again != first {
				l.t.Errorf("a late arrival was told the positions %d and %d", first, again)
			}
			all[i] = first
		})
	}
	l.restart(l.below(vwrReplicas), "")
	work.Wait()
	return all
}

func (l *lobbyRun) assign(client *harness.Client) (position int64) {
	for l.t.Context().Err() == nil {
		a, err := client.Assign(l.t.Context(), l.eventID)
		var got struct {
			Position int64 `json:"position"`
		}
		if err == nil && a.Status == http.StatusOK && a.Decode(&got) == nil {
			return got.Position
		}
		loop.Sleep(l.t.Context(), 50*time.Millisecond)
	}
	return 0
}

// shufflePath returns the path of the published shuffle.
func (l *lobbyRun) shufflePath() string { return "/vwr-api/vwr/shuffle/" + l.eventID }

// keepCopies saves every version of the published document from now on, until files is called.
func (l *lobbyRun) keepCopies() (files func() []string) {
	var kept []string
	client, seen, folder := l.Visitor(), map[string]bool{}, l.t.TempDir()
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(200 * time.Millisecond); ; {
			select {
			case <-over:
				tick.Stop()
				return
			case <-tick.C:
			}
			a, err := client.Call(l.t.Context(), http.MethodGet, l.shufflePath(), nil)
			if err != nil || a.Status != http.StatusOK || seen[string(a.Body)] {
				continue
			}
			seen[string(a.Body)] = true
			file := filepath.Join(folder, fmt.Sprintf("copy-%d.json", len(kept)))
			if err := saveCopy(file, a.Body, time.Now()); err != nil {
				l.t.Error(err)
			}
			kept = append(kept, file)
		}
	}()
	return func() []string {
		close(over)
		<-ended
		return kept
	}
}

func saveCopy(file string, body []byte, at time.Time) error {
	document, err := fairdraw.ParseDocument(body)
	if err != nil {
		return err
	}
	document.SavedAt = at.UnixMilli()
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// verify verifies the published shuffle with all receipts and the copies, by the program that
// anybody can run. It returns the report of package fairdraw about the same document.
func (l *lobbyRun) verify(entrants []*entrant, copies []string) *fairdraw.VerificationReport {
	l.t.Helper()
	require.NotEmpty(l.t, copies)
	url := "http://" + l.Service("gateway").Addr(0) + l.shufflePath()
	args := []string{"run", "../cmd/verify", "shuffle", url}
	if b := l.beacon; b != "" {
		args = append(args, "--trust-chain", b)
	}
	options := fairdraw.Options{Algorithm: fairdraw.AlgorithmShuffle}
	folder := l.t.TempDir()
	for i, e := range entered(entrants) {
		file := filepath.Join(folder, fmt.Sprintf("receipt-%d", i))
		require.NoError(l.t, os.WriteFile(file, []byte(e.entry.Receipt), 0o600))
		args = append(args, "--receipt", file)
		options.Receipts = append(options.Receipts, e.entry.Receipt)
	}
	for _, file := range copies {
		args = append(args, "--earlier", file)
	}
	client := l.Visitor()
	var document *fairdraw.Document
	l.Eventually(func(ctx context.Context) error {
		a, err := client.Call(ctx, http.MethodGet, l.shufflePath(), nil)
		if err != nil {
			return err
		}
		if document, err = fairdraw.ParseDocument(a.Body); err == nil && document.Phase != fairdraw.PhaseSettled {
			err = errors.New("the document is in phase " + string(document.Phase))
		}
		return err
	})
	out, err := exec.CommandContext(l.t.Context(), "go", args...).CombinedOutput()
	require.NoError(l.t, err, "%s", out)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Equal(l.t, "ok: the order of all entries is genuine", lines[len(lines)-1])
	entries := client.MustCall(l.t.Context(), http.MethodGet, l.shufflePath()+"/entries", nil, nil)
	report, err := fairdraw.Verify(document, entries.Body, options)
	require.NoError(l.t, err)
	return report
}
