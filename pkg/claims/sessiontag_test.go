package claims_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/token"
	"urr.guru/pkg/token/tokentest"
)

func TestSessionTag(t *testing.T) {
	t.Parallel()
	const signed = "head.claims.signature"
	keys := tokentest.KeySet(t, "a:"+secret).Derive(claims.LabelSession)
	tagged := claims.TagSession(keys, signed)
	require.True(t, strings.HasPrefix(tagged, signed+".a."))
	rotated := tokentest.KeySet(t, "b:"+strings.ToUpper(secret)+",a:"+secret).Derive(claims.LabelSession)
	got, ok, err := claims.UntagSession(rotated, tagged)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, signed, got)

	got, ok, err = claims.UntagSession(keys, signed)
	require.NoError(t, err)
	require.False(t, ok, "no tag")
	require.Equal(t, signed, got)
	require.Equal(t, signed, claims.TagSession(token.KeySet{}.Derive("x"), signed), "no key")

	for name, tok := range map[string]string{
		"another session": "other" + tagged, "cut": tagged[:len(tagged)-1], "longer": tagged + "AA", "no MAC": signed + ".a.",
		"a line break": tagged[:len(tagged)-1] + "\n" + tagged[len(tagged)-1:], "unknown kid": strings.Replace(tagged, ".a.", ".b.", 1),
		"another label": claims.TagSession(tokentest.KeySet(t, "a:"+secret).Derive(claims.LabelAnon), signed),
	} {
		_, _, err := claims.UntagSession(keys, tok)
		require.ErrorIs(t, err, claims.ErrForged, name)
	}
}
