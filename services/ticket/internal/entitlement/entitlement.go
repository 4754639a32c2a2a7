// Package entitlement decides who may buy in the presale of an event: holders of a membership,
// users with a code, users on an uploaded list, and users with a claim of the identity provider.
package entitlement

import (
	"context"
	"slices"
	"time"

	"urr.guru/services/ticket/internal/event"
)

// User is a user whose entitlement is to be decided.
type User struct {
	ID string
	// Email is the verified e-mail address in lower case; empty: unknown.
	Email string
	// Claims are the identity provider's claims about the user, each as "name=value".
	Claims []string
}

// Kind says what gives a user an entitlement, such as a membership.
type Kind string

// The kinds of entitlements. None: the user has no entitlement.
const (
	None       Kind = ""
	Membership Kind = "MEMBERSHIP"
	Code       Kind = "CODE"
	List       Kind = "LIST"
	Claim      Kind = "CLAIM"
)

// Events reads events.
type Events interface {
	// Event returns an event, at most 1 s old, or event.ErrNotFound.
	Event(ctx context.Context, id string) (event.Event, error)
}

// Memberships finds the users who have a membership of a plan.
type Memberships interface {
	// Holders returns those of the users who are members of a plan now. With boughtBefore they must
	// also have been members at that time, or have bought a membership before it.
	Holders(ctx context.Context, planID string, boughtBefore *time.Time, userIDs []string) ([]string, error)
}

// Found says which stored entitlements a user has.
type Found struct {
	// Listed: the user is on one of the lists. UsedCode: the user has used a code of the code lists.
	Listed, UsedCode bool
}

// Service decides which users have an entitlement.
type Service struct {
	Store

	events  Events
	members Memberships
}

// NewService makes a Service.
func NewService(events Events, members Memberships, store Store) *Service {
	return &Service{Store: store, events: events, members: members}
}

// HoldAny reports for each of the users whether they have an entitlement for the presale of an
// event. Nobody has one for an event without a presale.
func (s *Service) HoldAny(ctx context.Context, eventID string, users []User) ([]bool, error) {
	e, err := s.events.Event(ctx, eventID)
	if err != nil {
		return nil, err
	}
	kinds, err := s.Kinds(ctx, &e, users)
	if err != nil {
		return nil, err
	}
	entitled := make([]bool, len(users))
	for i, k := range kinds {
		entitled[i] = k != None
	}
	return entitled, nil
}

// Entitled reports whether a user has an entitlement for the presale of the event.
func (s *Service) Entitled(ctx context.Context, e *event.Event, u User) (bool, error) {
	kinds, err := s.Kinds(ctx, e, []User{u})
	return err == nil && kinds[0] != None, err
}

// Kinds returns the kind of each user's entitlement for the presale of the event.
func (s *Service) Kinds(ctx context.Context, e *event.Event, users []User) ([]Kind, error) {
	kinds := make([]Kind, len(users))
	if e.Presale == nil || !e.Presale.Exists() {
		return kinds, nil
	}
	ways, ids := e.Presale.Ways, make([]string, len(users))
	for i, u := range users {
		ids[i] = u.ID
		if u.hasClaim(ways) {
			kinds[i] = Claim
		}
	}
	if err := s.addStored(ctx, e.ID, ways, users, kinds); err != nil {
		return nil, err
	}
	for _, w := range ways {
		if w.PlanID == "" {
			continue
		}
		holders, err := s.members.Holders(ctx, w.PlanID, w.BoughtBefore, ids)
		if err != nil {
			return nil, err
		}
		for i, id := range ids {
			if slices.Contains(holders, id) {
				kinds[i] = Membership
			}
		}
	}
	return kinds, nil
}

// Allowance says what one user may buy at an event, by its presale and its limits.
type Allowance struct {
	// Kind is the kind of the user's entitlement for the presale.
	Kind Kind
	// GeneralOpensAt is when everybody may buy.
	GeneralOpensAt time.Time
	// Left is how many more places the user may hold now.
	Left int64
}

// AllowanceOf returns what a user may buy at an event, by its presale and its limits.
func (s *Service) AllowanceOf(ctx context.Context, eventID string, u User) (Allowance, error) {
	e, err := s.events.Event(ctx, eventID)
	if err != nil {
		return Allowance{}, err
	}
	kinds, err := s.Kinds(ctx, &e, []User{u})
	if err != nil {
		return Allowance{}, err
	}
	record, at, err := s.Record(ctx, eventID, *e.SeriesID, u.ID)
	if err != nil {
		return Allowance{}, err
	}
	sale := e.Sale()
	return Allowance{Kind: kinds[0], GeneralOpensAt: e.SalesOpenAt, Left: record.Left(&sale, at)}, nil
}

// addStored sets the kinds of users who are on a list or have used a code.
func (s *Service) addStored(ctx context.Context, eventID string, ways []event.Way, users []User, kinds []Kind) error {
	var lists, codeLists []string
	for _, w := range ways {
		if w.List != "" {
			lists = append(lists, w.List)
		}
		if w.CodeList != "" {
			codeLists = append(codeLists, w.CodeList)
		}
	}
	if len(lists)+len(codeLists) == 0 {
		return nil
	}
	found, err := s.Find(ctx, eventID, lists, codeLists, users)
	if err != nil {
		return err
	}
	for i, u := range users {
		switch f := found[u.ID]; {
		case f.UsedCode:
			kinds[i] = Code
		case f.Listed:
			kinds[i] = List
		}
	}
	return nil
}

// hasClaim reports whether the user has a claim that one of the presale's ways requires.
func (u *User) hasClaim(ways []event.Way) bool {
	return slices.ContainsFunc(ways, func(w event.Way) bool {
		return slices.ContainsFunc(w.Values, func(value string) bool { return slices.Contains(u.Claims, w.Claim+"="+value) })
	})
}
