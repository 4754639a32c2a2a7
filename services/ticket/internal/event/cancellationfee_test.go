package event_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
)

func TestCancellationFees(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)
	steps := event.CancellationFees{
		{Until: at, Percent: 0}, {Until: at.Add(time.Hour), Percent: 10}, {Until: at.Add(2 * time.Hour), Percent: 33},
	}
	for name, c := range map[string]struct {
		fees        event.CancellationFees
		after       time.Duration
		price, kept int64
	}{
		"no fees":                 {nil, 0, 55000, 0},
		"first step":              {steps, -1, 55000, 0},
		"its end":                 {steps, 0, 55000, 5500},
		"second step":             {steps, time.Hour - 1, 55000, 5500},
		"third step":              {steps, time.Hour, 55000, 18150},
		"after the last":          {steps, 48 * time.Hour, 55000, 18150},
		"less than a unit":        {steps, 0, 9, 0},
		"the payer gets the rest": {steps, time.Hour, 101, 33},
		"a free ticket":           {steps, time.Hour, 0, 0},
		"all":                     {event.CancellationFees{{Until: at, Percent: 100}}, 0, 77, 77},
		"the largest price":       {event.CancellationFees{{Until: at, Percent: 100}}, 0, math.MaxInt64, math.MaxInt64},
	} {
		require.Equal(t, c.kept, c.fees.Kept(c.price, at.Add(c.after)), name)
	}
}
