// Package room has the rules of tier 1. Visitors of an event get positions in order of arrival. A
// serving counter advances over the positions at a configured rate. A visitor whose position the
// counter has reached may proceed to tier 2.
package room

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/proofofwork"
	"urr.guru/pkg/spread"
)

// Round identifies one activation of an event's waiting room by its start, in µs since the Unix
// epoch. Later rounds have greater numbers. Positions, tickets and tokens belong to a round. Those
// of another round are rejected, so that an old low position gives no advantage.
type Round int64

// Inlet is the rule by which the serving counter advances.
type Inlet string

// The inlets that an operator can choose.
const (
	Periodic Inlet = "PERIODIC" // serves Batch positions per Interval
	// MaxInFlight keeps at most Settings.MaxInFlight people in tier 2 or on the way to it.
	MaxInFlight Inlet = "MAX_IN_FLIGHT"
)

// Settings are an operator's settings for an event.
type Settings struct {
	Batch       int64         // positions per Interval, and the maximum per step; at least 1
	Interval    time.Duration // at least 1 s, in whole seconds
	Inlet       Inlet
	MaxInFlight int64 // at least 1 with the inlet MaxInFlight, else unused
	// ProofOfWork is the work that the gateway demands of each visitor before it assigns a position,
	// in leading zero bits of SHA-256; 0 = none. It is at most proofofwork.MaxBits.
	ProofOfWork int64
	// SignIn restricts positions to signed-in users, one for each user.
	SignIn bool
	Next   NextPage
	// Expected is how many visitors are expected to wait for the start, those of a lobby included; 0:
	// unknown. AskRate is the planned rate of their requests for positions, per second; at least 1,
	// and so high that these ask within spread.Longest. Neither has an influence on how fast the
	// counter moves.
	Expected, AskRate int64
}

// NextPage is where a room leads: the kind of page to which admitted visitors go.
type NextPage string

// The kinds of pages to which a room can lead.
const (
	NextQueue  NextPage = "QUEUE"  // the page of an event, with the line of tier 2
	NextPromo  NextPage = "PROMO"  // the page of a promotion
	NextReward NextPage = "REWARD" // the page of a reward campaign
)

// checkID fails with ErrInvalidSettings unless the id can be that of a page of this kind:
// promotions and campaigns have UUIDs.
func (n NextPage) checkID(id string) error {
	if n == NextQueue || uuid.Validate(id) == nil {
		return nil
	}
	return invalidSettings("next", fmt.Sprintf("must be %s: promotions and campaigns have UUIDs as ids", NextQueue))
}

// DefaultAskRate is what one partition of the table stores.
const DefaultAskRate = 1000

// DefaultSettings returns the settings of a round that is started without any: 500 positions per 10
// s, and the room leads to the line of tier 2.
func DefaultSettings() Settings {
	return Settings{Batch: 500, Interval: 10 * time.Second, Inlet: Periodic, Next: NextQueue, AskRate: DefaultAskRate}
}

// leastAskRate is the lowest AskRate at which the expected visitors ask within spread.Longest.
func (s Settings) leastAskRate() int64 { return (s.Expected-1)/int64(spread.Longest.Seconds()) + 1 }

func (s Settings) Rate() float64 { return float64(s.Batch) / s.Interval.Seconds() }

// SettingsChange has the settings to change. A setting whose field is nil is not changed.
type SettingsChange struct {
	Batch       *int64
	Interval    *time.Duration
	Inlet       *Inlet
	MaxInFlight *int64
	ProofOfWork *int64
	SignIn      *bool
	Next        *NextPage
	Expected    *int64
	AskRate     *int64
	Lobby       LobbyTerms // the lobby of a new round
}

// With returns the settings after a change. If the result is invalid, it fails with
// ErrInvalidSettings, which has the name of the invalid setting.
func (s Settings) With(c SettingsChange) (Settings, error) {
	setIfGiven(&s.Batch, c.Batch)
	setIfGiven(&s.Interval, c.Interval)
	setIfGiven(&s.Inlet, c.Inlet)
	setIfGiven(&s.MaxInFlight, c.MaxInFlight)
	setIfGiven(&s.ProofOfWork, c.ProofOfWork)
	setIfGiven(&s.SignIn, c.SignIn)
	setIfGiven(&s.Next, c.Next)
	setIfGiven(&s.Expected, c.Expected)
	setIfGiven(&s.AskRate, c.AskRate)
	switch {
	case s.Batch < 1:
		return s, invalidSettings("batch", "must be at least 1")
	case s.Interval < time.Second || s.Interval%time.Second != 0:
		return s, invalidSettings("intervalSeconds", "must be at least 1")
	case s.Inlet != Periodic && s.Inlet != MaxInFlight:
		return s, invalidSettings("inlet", fmt.Sprintf("must be %s or %s", Periodic, MaxInFlight))
	case s.Inlet == MaxInFlight && s.MaxInFlight < 1:
		return s, invalidSettings("maxInFlight", fmt.Sprintf("must be at least 1 with inlet %s", MaxInFlight))
	case s.ProofOfWork < 0 || s.ProofOfWork > proofofwork.MaxBits:
		return s, invalidSettings("proofOfWork", fmt.Sprintf("must be from 0 to %d", proofofwork.MaxBits))
	case s.Expected < 0:
		return s, invalidSettings("expected", "must be at least 0")
	case s.AskRate < s.leastAskRate():
		return s, invalidSettings("askRate", fmt.Sprintf("must be at least %d, so that all who are expected ask within %g minutes", s.leastAskRate(), spread.Longest.Minutes()))
	case s.Next != NextQueue && s.Next != NextPromo && s.Next != NextReward:
		return s, invalidSettings("next", fmt.Sprintf("must be %s, %s or %s", NextQueue, NextPromo, NextReward))
	case s.Inlet == MaxInFlight && s.Next != NextQueue:
		return s, invalidSettings("inlet", fmt.Sprintf("must be %s unless the room leads to the line of an event", Periodic))
	}
	return s, nil
}

func setIfGiven[T any](dst, src *T) {
	if src != nil {
		*dst = *src
	}
}

// Counters are the stored state of one event's waiting room: its counters and settings.
type Counters struct {
	EventID   string
	Active    bool
	Round     Round
	Issued    int64 // the last issued position (nextPosition)
	Serving   int64 // the last position served; at most Issued
	Claimed   int64 // served positions whose visitors have fetched a token; Read does not set it
	Settings  Settings
	Lobby     Lobby
	UpdatedAt time.Time
}

func (c Counters) Waiting() int64 { return max(0, c.Issued-c.Serving) }

// Opening is the instant for which the crowd of the round waits: the start of the lobby, else of
// the round. The requests of the expected visitors, or of all entries if these are more, are spread
// after it. More entries than were expected ask faster than planned rather than for longer than
// spread.Longest.
func (c Counters) Opening() spread.Instant {
	i := spread.Instant{Start: time.UnixMicro(int64(c.Round)), Round: int64(c.Round)}
	if c.Lobby.Exists() {
		i.Start = time.UnixMilli(c.Lobby.StartsAt)
	}
	i.Over = min(spread.Longest, spread.Over(max(c.Settings.Expected, c.Lobby.Entries), float64(c.Settings.AskRate)))
	return i
}

// Serves reports whether the counter may move at now: at once, or, after a lobby, once everybody has
// had the time to see the drawn position. So nobody is late who follows the advice.
func (c Counters) Serves(now time.Time) bool {
	return !c.Lobby.Exists() || c.Lobby.Shuffled && !now.Before(c.asked())
}

// asked returns when all entrants of a shuffled lobby have asked for their positions.
func (c Counters) asked() time.Time { return c.Opening().End(time.UnixMilli(c.Lobby.ShuffledAt)) }

// Record is one visitor's position. It is stored before the visitor gets the answer.
type Record struct {
	EventID   string
	Round     Round
	RequestID uuid.UUID
	Position  int64  // from 1; 0 for an entry of a lobby without a position yet
	Visitor   string // the id in the signed cookie, or UserVisitor(user)
}

// TierTwoLoad counts an event's visitors in tier 2.
type TierTwoLoad struct {
	Waiting int64
	Active  int64
	Arrived int64 // the total since the round began
}
