package event_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
)

func TestRulesOfPresales(t *testing.T) {
	t.Parallel()
	spec := assigned()
	before := spec.SalesOpenAt.Add(-time.Hour)
	one := []event.Way{{List: "l"}}
	for name, c := range map[string]struct {
		presale event.Presale
		path    string // empty: it is valid
	}{
		"none":                  {event.Presale{}, ""},
		"list":                  {event.Presale{OpensAt: before, Ways: one}, ""},
		"without a time":        {event.Presale{Ways: one}, "presale.opensAt"},
		"with the sale":         {event.Presale{OpensAt: spec.SalesOpenAt, Ways: one}, "presale.opensAt"},
		"for nobody":            {event.Presale{OpensAt: before}, "presale.any"},
		"two ways in one":       {event.Presale{OpensAt: before, Ways: []event.Way{{List: "l", CodeList: "c"}}}, "presale.any[0]"},
		"empty way":             {event.Presale{OpensAt: before, Ways: []event.Way{{List: "l"}, {}}}, "presale.any[1]"},
		"claim without values":  {event.Presale{OpensAt: before, Ways: []event.Way{{Claim: "tier"}}}, "presale.any[0]"},
		"values without claim":  {event.Presale{OpensAt: before, Ways: []event.Way{{List: "l", Values: []string{"v"}}}}, "presale.any[0]"},
		"bought before, a list": {event.Presale{OpensAt: before, Ways: []event.Way{{List: "l", BoughtBefore: &before}}}, "presale.any[0]"},
	} {
		s := spec
		s.Presale = &c.presale
		s.Complete(nil)
		err := s.CheckComplete()
		if c.path == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, event.ErrInvalid, name)
		require.Equal(t, c.path, errs.From(err).Fields[0].Path, name)
	}
}
