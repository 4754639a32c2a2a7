package crowd

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/platform"
)

// assignedPosition and checkedPosition are tier 1's responses to requests for a position and polls.
type assignedPosition struct {
	RequestID string  `json:"requestId"`
	NextPoll  float64 `json:"nextPoll"`
	Ticket    string  `json:"ticket"`
}

type checkedPosition struct {
	Admitted bool    `json:"admitted"`
	NextPoll float64 `json:"nextPoll"`
	Token    string  `json:"token"`
}

// linePlace is tier 2's response to a visitor who joins or polls. NextPoll is in seconds.
type linePlace struct {
	Status     string  `json:"status"`
	NextPoll   float64 `json:"nextPoll"`
	EntryToken string  `json:"entryToken"`
	Ticket     string  `json:"ticket"`
}

// pollsPerSaleQuery is the number of polls of the line between two requests for the sale's figures.
const pollsPerSaleQuery = 10

// waitInRoom gets a position in tier 1 and waits until it is served. If tier 1 is not active, it
// returns at once.
func (v *visitor) waitInRoom(ctx context.Context) error {
	for {
		ans, err := v.requestPosition(ctx)
		if err != nil {
			return err
		}
		if ans.Status == http.StatusNotFound {
			return nil
		}
		var a assignedPosition
		if err := decode(StepAssign, ans, &a); err != nil {
			return err
		}
		if v.behaviour == LeavesRoom && loop.Sleep(ctx, jitter(v.rng, 5*time.Second)) {
			return errLeft
		}
		served, err := v.pollRoom(ctx, a)
		if err != nil || served {
			return err
		}
	}
}

// passRoom waits until the visitor may join the line. Visitors who may buy in the presale only take a
// position, as their page does, and do not wait for it.
func (v *visitor) passRoom(ctx context.Context) error {
	if !v.entitled {
		return v.waitInRoom(ctx)
	}
	_, err := v.requestPosition(ctx)
	return err
}

func (v *visitor) assignPath() string { return "/vwr-api/vwr/assign/" + v.crowd.sale.EventID }

// requestPosition asks tier 1 for a position, at the visitor's turn, with a proof of work if tier 1
// asks for one.
func (v *visitor) requestPosition(ctx context.Context) (*Answer, error) {
	header := map[string]string{}
	for {
		ans, err := v.callWithRetries(ctx, StepAssign, http.MethodPost, v.assignPath(), map[string]any{}, header)
		if err == nil && ans.Problem().Code == platform.AskLater {
			if err := v.awaitTurn(ctx, ans); err != nil {
				return nil, err
			}
			continue
		}
		if err == nil && ans.OK() {
			v.countTurn()
		}
		if err != nil || ans.Problem().Code != platform.ProofRequired {
			return ans, err
		}
		ans, err = v.callWithRetries(ctx, StepChallenge, http.MethodGet, platform.ChallengePath(v.crowd.sale.EventID), nil, nil)
		if err != nil || !ans.OK() {
			return ans, err
		}
		proof, err := platform.Prove(ctx, ans.Body)
		if err != nil {
			return nil, err
		}
		header[platform.ProofHeader] = proof
		v.crowd.tally.Proofs.Add(1)
	}
}

// pollRoom checks the position at the advised intervals until it is served. It returns false if
// tier 1 does not know the position: the visitor must request another.
func (v *visitor) pollRoom(ctx context.Context, a assignedPosition) (bool, error) {
	path := "/vwr-api/vwr/check/" + v.crowd.sale.EventID + "/" + a.RequestID
	next := a.NextPoll
	for {
		if err := v.sleep(ctx, next); err != nil {
			return false, err
		}
		ans, err := v.callWithRetries(ctx, StepTier1Poll, http.MethodGet, path, nil, map[string]string{"x-vwr-ticket": a.Ticket})
		if err != nil {
			return false, err
		}
		if ans.Status == http.StatusNotFound {
			return false, nil
		}
		var c checkedPosition
		if err := decode(StepTier1Poll, ans, &c); err != nil {
			return false, err
		}
		if c.Admitted {
			v.crowd.stolenPasses.addPass(v.session.cookies["urr-vwr-token"], a.Ticket, a.RequestID)
			return true, nil
		}
		next = c.NextPoll
	}
}

// waitInLine joins the line of tier 2 and polls until the visitor has a slot.
func (v *visitor) waitInLine(ctx context.Context) error {
	event := v.crowd.sale.EventID
	p, err := v.joinLine(ctx)
	if err != nil {
		return err
	}
	if v.behaviour == SharesPass {
		v.sharePass(ctx)
	}
	for polls := 1; p.Status != "active"; polls++ {
		if sold, err := v.soldOutWhileWaiting(ctx, polls); err != nil || sold {
			return cmp.Or(err, errSoldOut)
		}
		if v.behaviour == LeavesLine && v.rng.IntN(3) == 0 {
			return errLeft
		}
		if v.behaviour == ComesBack && !v.away {
			v.away = true
			if !loop.Sleep(ctx, awayAtLeast+time.Duration(v.rng.Int64N(int64(awaySpread)))) {
				return ctx.Err()
			}
		} else if err := v.sleep(ctx, p.NextPoll); err != nil {
			return err
		}
		header := map[string]string{"x-queue-ticket": v.queueTicket}
		ans, err := v.callWithRetries(ctx, StepQueuePoll, http.MethodGet, "/api/v1/queue/status/"+event, nil, header)
		if err != nil {
			return err
		}
		if p, err = v.readPlace(StepQueuePoll, ans); err != nil {
			return err
		}
		if p.Status == "none" {
			if p, err = v.joinLine(ctx); err != nil {
				return err
			}
		}
	}
	v.lastBeat = time.Now()
	v.crowd.stolenPasses.addEntryToken(p.EntryToken)
	return nil
}

// soldOutWhileWaiting reports whether every seat is sold while this visitor waits in the line. Like
// the page, it asks only at every tenth poll.
func (v *visitor) soldOutWhileWaiting(ctx context.Context, polls int) (bool, error) {
	if polls%pollsPerSaleQuery > 0 {
		return v.crowd.soldOut.Load(), nil
	}
	return v.allSold(ctx)
}

// joinLine joins the line. A visitor whose tier-1 pass has expired first waits in the room again, as does
// one without a pass who may buy in the presale, but not before the general sale.
func (v *visitor) joinLine(ctx context.Context) (linePlace, error) {
	for {
		header := map[string]string{}
		if v.queueTicket != "" {
			header["x-queue-ticket"] = v.queueTicket
		}
		ans, err := v.callWithRetries(ctx, StepQueueJoin, http.MethodPost, "/api/v1/queue/check/"+v.crowd.sale.EventID, map[string]any{}, header)
		if err != nil {
			return linePlace{}, err
		}
		if ans.Status == http.StatusForbidden && ans.Problem().Code == "VWR_TOKEN_REQUIRED" {
			if err := v.returnToRoom(ctx); err != nil {
				return linePlace{}, err
			}
			continue
		}
		return v.readPlace(StepQueueJoin, ans)
	}
}

// returnToRoom waits in the room after the line has refused the visitor without a pass. That is wrong
// of one who may buy in the presale while that still goes on.
func (v *visitor) returnToRoom(ctx context.Context) error {
	if v.entitled {
		status, err := v.saleStatus(ctx)
		if err != nil {
			return err
		}
		if status == "PRESALE" {
			v.crowd.tally.addWrongAnswer("%s may buy in the presale, and had to wait in the room", v.userID)
		}
	}
	return v.waitInRoom(ctx)
}

func (v *visitor) readPlace(step Step, ans *Answer) (linePlace, error) {
	var p linePlace
	if err := decode(step, ans, &p); err != nil {
		return p, err
	}
	if p.Ticket != "" {
		v.queueTicket = p.Ticket
	}
	return p, nil
}

// sleep waits for the advised number of seconds until the next poll, at least 1 and at most 60, as
// on the pages.
func (v *visitor) sleep(ctx context.Context, seconds float64) error {
	loop.Sleep(ctx, time.Duration(max(1, min(60, seconds))*float64(time.Second)))
	return ctx.Err()
}
