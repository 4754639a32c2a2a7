package currency_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/currency"
)

func TestDigits(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{"KRW": 0, "JPY": 0, "USD": 2, "EUR": 2, "HUF": 2, "KWD": 3, "IQD": 3, "CLF": 4} {
		require.True(t, currency.Known(code), code)
		require.Equal(t, want, currency.Digits(code), code)
	}
	for _, code := range []string{"", "XYZ", "krw", "XAU", "XXX", "DEM"} { // not in use, or without a minor unit
		require.False(t, currency.Known(code), code)
	}
}
