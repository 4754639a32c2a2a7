package crowd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/internal/fetch"
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
	// presaleList is the name of the uploaded list, and of the list of codes, of which the crowd has
	// none.
	presaleList = "crowd"
	// At least entitledAtLeast visitors, and this percentage of all, may buy in the presale.
	entitledPercent = 2
	entitledAtLeast = 2
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
	office, err := c.signInOperator(ctx, operator)
	if err != nil {
		return nil, err
	}
	if p.Plan, err = office.beginPlan(ctx); err != nil {
		return nil, err
	}
	c.entitled, c.presale = entitledVisitors(c.behaviours), lasts
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
	return p, errors.Join(errors.Join(errs...), office.endPlan(ctx, p.Plan))
}

// signInOperator returns an operator who is signed in.
func (c *Crowd) signInOperator(ctx context.Context, userID string) (*visitor, error) {
	office := &visitor{crowd: c, rng: c.visitorRand(0), session: c.api.NewSession()}
	return office, office.session.DevLogin(ctx, userID, "admin")
}

// beginPlan puts a membership plan on sale, and returns its id.
func (v *visitor) beginPlan(ctx context.Context) (plan string, err error) {
	terms := map[string]any{"name": "Members of " + v.crowd.sale.EventID, "price": membershipPrice, "currency": "KRW", "months": 1}
	var created struct {
		PlanID string `json:"planId"`
	}
	err = v.post(ctx, StepMembership, "/api/v1/admin/memberships/plans", terms, &created)
	return created.PlanID, err
}

// endPlan ends the sale of a membership plan.
func (v *visitor) endPlan(ctx context.Context, plan string) error {
	return callAsOperator(ctx, v.session, http.MethodPut, "/api/v1/admin/memberships/plans/"+plan, map[string]any{"onSale": false})
}

// orderMembership begins the purchase of a membership, and returns its id.
func (v *visitor) orderMembership(ctx context.Context, plan string) (id string, err error) {
	var m struct {
		MembershipID string `json:"membershipId"`
	}
	err = v.post(ctx, StepMembership, "/api/v1/memberships", map[string]any{"planId": plan}, &m)
	return m.MembershipID, err
}

// becomeMember buys a membership, and waits until it is active.
func (v *visitor) becomeMember(ctx context.Context, plan string) error {
	if err := v.login(ctx); err != nil {
		return err
	}
	id, err := v.orderMembership(ctx, plan)
	if err != nil {
		return err
	}
	status, err := v.charge(ctx, payable{kind: "membership", id: id}, okKey())
	if err != nil || status == declined || status == expired {
		return errors.Join(err, fmt.Errorf("the payment of %s for a membership is %q", v.userID, status))
	}
	var m struct{ Status string }
	for m.Status != "ACTIVE" {
		if !loop.Sleep(ctx, paymentPoll) {
			return ctx.Err()
		}
		if err := v.get(ctx, StepMembership, "/api/v1/my/memberships/"+id, &m); err != nil {
			return err
		}
	}
	return nil
}

// spec returns the settings of the presale of an event, for a presale that opens now.
func (p *Presale) spec(now time.Time) map[string]any {
	return map[string]any{"opensAt": now, "any": []map[string]any{{"planId": p.Plan}, {"list": presaleList}, {"codeList": presaleList}}}
}

// uploadList uploads the list of a sale's presale.
func (s Sale) uploadList(ctx context.Context, admin *Session) error {
	file := fetch.CSV("userId\n" + strings.Join(s.Presale.Listed, "\n") + "\n")
	return callAsOperator(ctx, admin, http.MethodPut, "/api/v1/admin/events/"+s.EventID+"/entitlements/"+presaleList, file)
}
