package crowd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/loop"
)

// Presale is the time before the general sale in which only members of a membership plan and users
// on a list may buy.
type Presale struct {
	// Lasts is the time from the opening of the presale to that of the general sale.
	Lasts time.Duration
	// Plan is the id of the membership plan, and Listed are the ids of the users on the list.
	Plan   string
	Listed []string
}

const (
	// presaleList is the name of the uploaded list.
	presaleList = "crowd"
	// At least entitledAtLeast visitors, and this percentage of all, may buy in the presale.
	entitledPercent = 2
	entitledAtLeast = 2
	// presaleHeadStart is how much earlier those visitors arrive than the first of the others.
	presaleHeadStart = time.Second
	// membershipPrice is the price of a membership, in KRW.
	membershipPrice = 9900
)

// entitledVisitors returns the numbers of the visitors who may buy in a presale: the first ones
// whose behaviour is Buys.
func entitledVisitors(behaviours []Behaviour) (chosen []int) {
	want := max(entitledAtLeast, len(behaviours)*entitledPercent/100)
	for i, b := range behaviours {
		if b == Buys && len(chosen) < want {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

// PreparePresale chooses the visitors who may buy in a presale. Half of them buy memberships in a
// plan that is on sale for them only; the returned Presale lists the others.
func (c *Crowd) PreparePresale(ctx context.Context, operator string, lasts time.Duration) (*Presale, error) {
	p := &Presale{Lasts: lasts}
	admin := c.api.NewSession()
	if err := admin.DevLogin(ctx, operator, "admin"); err != nil {
		return nil, err
	}
	office := &visitor{crowd: c, rng: c.visitorRand(0), session: admin}
	terms := map[string]any{"name": "Members of " + c.sale.EventID, "price": membershipPrice, "currency": "KRW", "months": 1}
	var created struct {
		PlanID string `json:"planId"`
	}
	if err := office.post(ctx, StepMembership, "/api/v1/admin/memberships/plans", terms, &created); err != nil {
		return nil, err
	}
	p.Plan = created.PlanID
	c.entitled = entitledVisitors(c.behaviours)
	errs := make([]error, len(c.entitled))
	var wg sync.WaitGroup
	for n, i := range c.entitled {
		if n%2 == 0 {
			p.Listed = append(p.Listed, c.userID(i))
			continue
		}
		member := &visitor{crowd: c, rng: c.visitorRand(i), userID: c.userID(i), session: c.api.NewSession()}
		wg.Go(func() { errs[n] = member.becomeMember(ctx, p.Plan) })
	}
	wg.Wait()
	endErr := callAsOperator(ctx, admin, http.MethodPut, "/api/v1/admin/memberships/plans/"+p.Plan, map[string]any{"onSale": false})
	return p, errors.Join(errors.Join(errs...), endErr)
}

// becomeMember buys a membership, and waits until it is active.
func (v *visitor) becomeMember(ctx context.Context, plan string) error {
	if err := v.login(ctx); err != nil {
		return err
	}
	var m struct {
		MembershipID string `json:"membershipId"`
		Status       string `json:"status"`
	}
	if err := v.post(ctx, StepMembership, "/api/v1/memberships", map[string]any{"planId": plan}, &m); err != nil {
		return err
	}
	status, err := v.charge(ctx, payable{kind: "membership", id: m.MembershipID}, "ok-"+uuid.NewString())
	if err != nil || status == declined || status == expired {
		return errors.Join(err, fmt.Errorf("the payment of %s for a membership is %q", v.userID, status))
	}
	for m.Status != "ACTIVE" {
		if !loop.Sleep(ctx, paymentPoll) {
			return ctx.Err()
		}
		if err := v.get(ctx, StepMembership, "/api/v1/my/memberships/"+m.MembershipID, &m); err != nil {
			return err
		}
	}
	return nil
}

// spec returns the settings of the presale of an event, for a presale that opens now.
func (p *Presale) spec(now time.Time) map[string]any {
	return map[string]any{"opensAt": now, "any": []map[string]any{{"planId": p.Plan}, {"list": presaleList}}}
}

// uploadList uploads the list of a sale's presale.
func (s Sale) uploadList(ctx context.Context, admin *Session) error {
	file := csvFile("userId\n" + strings.Join(s.Presale.Listed, "\n") + "\n")
	return callAsOperator(ctx, admin, http.MethodPut, "/api/v1/admin/events/"+s.EventID+"/entitlements/"+presaleList, file)
}
