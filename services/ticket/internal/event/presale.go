package event

import (
	"fmt"
	"slices"
	"time"

	"urr.guru/pkg/errs"
)

// Presale is a time before the general sale in which only users with an entitlement may buy. Its
// zero value stands for an event without one.
type Presale struct {
	OpensAt time.Time
	// MaxPerUser is the user's limit while the presale lasts; 0: the limit of the sale.
	MaxPerUser int32
	// Ways are the ways to an entitlement: a user needs one of them.
	Ways []Way
}

// Way is one way to an entitlement. Exactly one of PlanID, CodeList, List and Claim is set.
type Way struct {
	// PlanID is a plan of which the user needs a membership, bought before BoughtBefore (nil: ever).
	PlanID       string     `json:"planId,omitzero"`
	BoughtBefore *time.Time `json:"boughtBefore,omitempty"`
	// CodeList is a list of codes of which the user must have used one.
	CodeList string `json:"codeList,omitzero"`
	// List is an uploaded list on which the user must be.
	List string `json:"list,omitzero"`
	// Claim is a claim of the identity provider that must have one of the Values.
	Claim  string   `json:"claim,omitzero"`
	Values []string `json:"values,omitempty"`
}

// Exists reports whether the event has a presale.
func (p *Presale) Exists() bool { return !p.OpensAt.IsZero() }

// check returns an error for each rule that the presale breaks. p is nil if a request has none.
func (p *Presale) check(salesOpenAt time.Time) (bad []errs.Field) {
	switch {
	case p == nil:
		return nil
	case !p.Exists() && (p.MaxPerUser != 0 || len(p.Ways) > 0):
		return []errs.Field{{Path: "presale.opensAt", Message: "is required"}}
	case !p.Exists():
		return nil
	}
	if !p.OpensAt.Before(salesOpenAt) {
		bad = append(bad, errs.Field{Path: "presale.opensAt", Message: "must be before salesOpenAt"})
	}
	if len(p.Ways) == 0 {
		bad = append(bad, errs.Field{Path: "presale.any", Message: "must name a planId, codeList, list or claim"})
	}
	for i := range p.Ways {
		if message := p.Ways[i].problem(); message != "" {
			bad = append(bad, errs.Field{Path: fmt.Sprintf("presale.any[%d]", i), Message: message})
		}
	}
	return bad
}

// problem describes the rule that the way breaks; empty: it breaks none.
func (w *Way) problem() string {
	count := 0
	for _, name := range []string{w.PlanID, w.CodeList, w.List, w.Claim} {
		if name != "" {
			count++
		}
	}
	switch {
	case count != 1:
		return "must have one of planId, codeList, list and claim"
	case w.BoughtBefore != nil && w.PlanID == "":
		return "boughtBefore belongs to a planId"
	case w.Claim == "" && len(w.Values) > 0:
		return "values belong to a claim"
	case w.Claim != "" && len(w.Values) == 0:
		return "a claim needs values"
	}
	return ""
}

// PlanIDs returns the plans whose members may buy in the presale.
func (p *Presale) PlanIDs() (ids []string) {
	for i := range p.Ways {
		if id := p.Ways[i].PlanID; id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// CheckPlans returns ErrInvalid if a plan of the presale is not among the existing plans.
func (p *Presale) CheckPlans(existing []string) error {
	for i := range p.Ways {
		if id := p.Ways[i].PlanID; id != "" && !slices.Contains(existing, id) {
			return ErrInvalid.WithFields(errs.Field{Path: fmt.Sprintf("presale.any[%d].planId", i), Message: "is not a plan of memberships"})
		}
	}
	return nil
}

// stored returns the presale with its times truncated to the precision of the database.
func (p *Presale) stored() *Presale {
	if p == nil || !p.Exists() {
		return p
	}
	s := Presale{OpensAt: toMicroseconds(p.OpensAt), MaxPerUser: p.MaxPerUser, Ways: slices.Clone(p.Ways)}
	for i := range s.Ways {
		if before := s.Ways[i].BoughtBefore; before != nil {
			s.Ways[i].BoughtBefore = new(toMicroseconds(*before))
		}
	}
	return &s
}
