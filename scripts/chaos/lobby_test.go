package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacontest"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const vwrReplicas = 2

// joinPoint is the failpoint between a stored entry and the answer to its user.
const joinPoint = "vwr.lobby_joined"

// Failpoints of a lobby, from its closing to the value of the beacon, and from its start on. The
// short form has no beacon, whose round is a minute after the statement.
var (
	rootPoints  = []string{"vwr.lobby_closed", "vwr.lobby_stated", "vwr.lobby_signed"}
	valuePoints = []string{"vwr.lobby_valued"}
	startPoints = []string{"vwr.lobby_revealed", "vwr.lobby_started"}
)

// lobbySize is the size of a lobby.
type lobbySize struct {
	visitors, late int
	open           time.Duration // time until it closes
	lead           time.Duration // time from the closing to the start
	kills          int           // random kills while users join
}

var (
	// The lead leaves 16 s for three deaths before the root has to be signed.
	longLobby = lobbySize{visitors: 300, late: 40, open: 30 * time.Second, lead: 150 * time.Second, kills: 8}
	// In the short form the clocks are moved past the closing and the start.
	shortLobby = lobbySize{visitors: 40, late: 6, open: 5 * time.Minute, lead: 80 * time.Second, kills: 1}
)

// lobbyRun is a platform of tier 1 with one lobby, whose replicas are killed.
type lobbyRun struct {
	*harness.Platform
	t *testing.T
	chance

	size     lobbySize
	eventID  string
	beacon   string // hash of its chain; empty: none
	closesAt time.Time
	startsAt time.Time
	skew     time.Duration  // error of every clock
	armed    map[int]string // failpoints of replicas that have not died there
	deaths   map[string]int
}

// TestLobbySurvivesDeaths lets users join a lobby, and kills replicas at random and at each
// failpoint. Each time another replica continues. Each user with a receipt gets one position, which
// anyone can verify, and later arrivals are behind.
func TestLobbySurvivesDeaths(t *testing.T) {
	parallelIfShort(t)
	seed, rng := seededRandom(t)
	l := setupLobby(t, rng, fmt.Sprintf("lobby-%d", seed))
	l.open()
	entrants := l.newEntrants()
	copies := l.keepCopies()
	l.fill(entrants)
	began := time.Now()
	l.dieBeforeStart()
	l.dieAtStart()
	l.awaitPositions(entrants)
	late := l.lateArrivals()
	l.killAll()
	report := l.verify(entrants, copies())
	l.requirePositions(entrants, late, report)
	t.Logf("%d of %d have joined, positions %v after the last receipt, deaths %v, missed rounds %d", report.Statement.Count,
		l.size.visitors, time.Since(began).Round(time.Millisecond), l.deaths, report.Statement.MissedRounds)
}

func setupLobby(t *testing.T, rng *rand.Rand, eventID string) *lobbyRun {
	t.Helper()
	l := &lobbyRun{t: t, chance: chance{rng: rng}, size: shortLobby, eventID: eventID, armed: map[int]string{}, deaths: map[string]int{}}
	if *full {
		l.size = longLobby
	}
	l.Platform = harness.Start(t, harness.Options{
		Services: []string{platform.Sandbox, platform.VWR, platform.Gateway}, Replicas: map[string]int{platform.VWR: vwrReplicas},
		Env: map[string][]string{
			platform.VWR:     {"VWR_LOBBY_LEAD=" + l.size.lead.String()},
			platform.Sandbox: {"SANDBOX_BEACON_PERIOD=1s"},
		},
	})
	return l
}

// open opens the lobby. In the full form a beacon decides the order.
func (l *lobbyRun) open() {
	l.t.Helper()
	l.closesAt = time.Now().Add(l.size.open).Truncate(time.Second)
	l.startsAt = l.closesAt.Add(l.size.lead)
	settings := map[string]any{"startsAt": l.startsAt.UTC().Format(time.RFC3339)}
	if *full {
		b, err := beacontest.New([]byte(l.Secrets().Beacon), beacontest.Options{Period: time.Second})
		require.NoError(l.t, err)
		c := b.Chain()
		l.beacon = c.ChainHash
		settings["beacon"] = map[string]any{
			"scheme": c.Scheme, "chainHash": c.ChainHash, "publicKey": c.PublicKey, "genesis": c.Genesis, "periodSeconds": c.Period,
			"groupHash": c.GroupHash, "beaconId": c.BeaconID,
		}
	}
	l.Operator().MustCall(l.t.Context(), http.MethodPost, "/api/v1/admin/vwr/activate/"+l.eventID, settings, nil)
}

// fill lets all users join, while replicas die at joinPoint and at random times.
func (l *lobbyRun) fill(entrants []*entrant) {
	l.t.Helper()
	for i := range vwrReplicas {
		l.restart(i, joinPoint+"@"+strconv.Itoa(2+l.below(3))+"=exit")
	}
	done := l.join(entrants)
	for kills := 0; ; {
		select {
		case <-done:
			require.NotZero(l.t, l.deaths[joinPoint])
			return
		case <-time.After(time.Duration(300+l.below(700)) * time.Millisecond):
		}
		l.reviveAll()
		if kills < l.size.kills {
			kills++
			l.restart(l.below(vwrReplicas), []string{"", joinPoint + "@5=exit"}[l.below(2)])
		}
	}
}

// dieBeforeStart kills one replica after another while it processes the closed lobby.
func (l *lobbyRun) dieBeforeStart() {
	l.t.Helper()
	l.stopAll()
	l.moveClocks(l.closesAt.Add(15 * time.Second))
	points := rootPoints
	if *full {
		points = append(points, valuePoints...)
	}
	l.dieAtEach(points)
}

// dieAtStart kills replicas likewise while they start the round, and then starts all replicas.
func (l *lobbyRun) dieAtStart() {
	l.t.Helper()
	l.moveClocks(l.startsAt.Add(time.Second))
	l.dieAtEach(startPoints)
	l.reviveAll()
	if !*full { // the gateway also decides who is late
		l.Service(platform.Gateway).RestartWithFailpoints(0, l.clock())
	}
}

// moveClocks sets the clocks of all later processes to a time, in the short form.
func (l *lobbyRun) moveClocks(at time.Time) {
	if !*full {
		l.skew = time.Until(at)
	}
}

func (l *lobbyRun) clock() string { return "clock=skew:" + l.skew.String() + ";" }

// dieAtEach starts a replica for each failpoint, one after another, and waits until it has died.
func (l *lobbyRun) dieAtEach(points []string) {
	l.t.Helper()
	for n, point := range points {
		i := n % vwrReplicas
		l.begin(i, point+"@1=exit")
		awaitDeath(l.Platform, platform.VWR, i, point)
		l.countDeath(i)
		require.Equal(l.t, 1, l.deaths[point])
	}
}

// restart ends a replica by SIGKILL, and starts it again, with a failpoint if one is given.
func (l *lobbyRun) restart(i int, failpoint string) {
	l.t.Helper()
	l.kill(i)
	l.begin(i, failpoint)
}

func (l *lobbyRun) kill(i int) {
	l.t.Helper()
	l.countDeath(i)
	if s := l.Service(platform.VWR); s.Running(i) {
		s.Kill(i)
		l.deaths["kill -9"]++
	}
}

// begin starts a replica that is down.
func (l *lobbyRun) begin(i int, failpoint string) {
	l.t.Helper()
	l.countDeath(i)
	l.armed[i] = failpoint
	l.Service(platform.VWR).RestartWithFailpoints(i, l.clock()+failpoint)
}

// countDeath counts the death of a replica if it died at its failpoint.
func (l *lobbyRun) countDeath(i int) {
	if name, _, _ := strings.Cut(l.armed[i], "@"); name != "" && !l.Service(platform.VWR).Running(i) {
		l.deaths[name]++
		l.armed[i] = ""
	}
}

func (l *lobbyRun) reviveAll() {
	l.t.Helper()
	for i := range vwrReplicas {
		if !l.Service(platform.VWR).Running(i) {
			l.begin(i, "")
		}
	}
}

func (l *lobbyRun) stopAll() {
	l.t.Helper()
	for i := range vwrReplicas {
		l.kill(i)
	}
}

// killAll kills and restarts every replica, so that none has anything in memory.
func (l *lobbyRun) killAll() {
	l.t.Helper()
	l.stopAll()
	l.reviveAll()
}

// requirePositions requires of replicas without memory that every entry still has its position,
// which is the published one, and that late arrivals have later positions.
func (l *lobbyRun) requirePositions(entrants []*entrant, late []int64, report *fairdraw.VerificationReport) {
	l.t.Helper()
	joined := entered(entrants)
	require.Greater(l.t, len(joined), len(entrants)/2)
	require.EqualValues(l.t, len(joined), report.Statement.Count, "a stored entry was refused, or a told one is missing")
	require.Equal(l.t, *full, report.Commitment.Beacon != nil)
	holders := map[int64]string{}
	for i, e := range joined {
		before := e.position
		l.awaitPosition(e)
		require.Equal(l.t, before, e.position, "%s was told another position before", e.user)
		require.EqualValues(l.t, report.Receipts[i].Rank, e.position, "%s has another position than the published one", e.user)
		require.Empty(l.t, holders[e.position], "the position %d of %s has another holder", e.position, e.user)
		holders[e.position] = e.user
	}
	for _, position := range late {
		require.Greater(l.t, position, int64(len(joined)))
		require.Empty(l.t, holders[position], "the position %d of a late arrival has another holder", position)
		holders[position] = "late"
	}
}
