package text_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/text"
)

func TestHasVisible(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"김하나", "a", "7", "!", "🎫", " \u200bx", "e\u0301"} {
		require.True(t, text.HasVisible(s), "%+q", s)
	}
	for _, s := range []string{
		"", " \t\n", "\u00a0\u3000", "\u200b\u200d\u2060\ufeff", "\u00ad", "\u3164", "\u115f\u1160\uffa0", "\u2800", "\u0301", "\u202e\u202c", "\ufe0f",
	} {
		require.False(t, text.HasVisible(s), "%+q", s)
	}
}
