package rewards

import (
	"context"
	"fmt"
	"net/http"

	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
)

// atOnce bounds the members who use the platform at the same time: the demo shows payouts, not how
// a crowd is refused.
const atOnce = 64

// visit signs a member in, who attends, draws and looks at the rewards.
func (d *Demo) visit(ctx context.Context, i int) (outcome string) {
	s, name := d.API.NewSession(), fmt.Sprintf("member-%05d", i)
	if err := s.DevLogin(ctx, name); err != nil {
		return "error: " + err.Error()
	}
	twice := i%demo.TwiceEvery == 0
	if _, err := d.enter(ctx, s, name, crowd.StepAttend, "/api/v1/rewards/"+d.campaign.attendance+"/attendance", twice); err != nil {
		return "error: " + err.Error()
	}
	e, err := d.enter(ctx, s, name, crowd.StepDraw, "/api/v1/rewards/"+d.campaign.random+"/draw", twice)
	if err != nil {
		return "error: " + err.Error()
	}
	if _, err := s.Call(ctx, crowd.StepRewards, http.MethodGet, "/api/v1/my/rewards", nil, nil); err != nil {
		return "error: " + err.Error()
	}
	if e.Prize == nil || e.Prize.Kind == "NONE" {
		return "no prize"
	}
	return "prize: " + e.Prize.Name
}

// entry is the response to an attendance or a draw.
type entry struct {
	EntryID string
	Prize   *struct{ Name, Kind string }
}

// enter attends or draws, some twice at once. Both clicks must return the same entry; repeating a
// request is safe.
func (d *Demo) enter(ctx context.Context, s *crowd.Session, name string, step crowd.Step, path string, twice bool) (entry, error) {
	click := func(s *crowd.Session) (e entry, err error) {
		err = demo.Insist(ctx, s, step, path, &e)
		return e, err
	}
	if !twice {
		return click(s)
	}
	first, second, err := demo.Twice(s, click)
	if err == nil && first.EntryID != second.EntryID {
		d.Tally.Violate("%s clicked %s twice and has the entries %s and %s", name, step, first.EntryID, second.EntryID)
	}
	return first, err
}
