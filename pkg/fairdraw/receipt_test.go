package fairdraw_test

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw"
)

func TestReceiptRoundTrip(t *testing.T) {
	t.Parallel()
	keys := signingKeys(t, 1)
	for _, r := range []fairdraw.Receipt{
		{EventID: "promo-1", RequestID: requestID(1), At: cutoff.UnixMilli(), Commitment: fairdraw.Hash{9}},
		{EventID: strings.Repeat("e", 64), RequestID: requestID(1), At: 1}, // without a draw
	} {
		s := r.Sign(keys, keys.Current())
		require.Regexp(t, `^[A-Za-z0-9_-]+$`, s)
		require.Equal(t, s, r.Sign(keys, keys.Current()), "the same again")
		got, err := fairdraw.OpenReceipt(keys.Public("draw-1"), s)
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
	require.Empty(t, fairdraw.Receipt{EventID: "e"}.Sign(keys, "another"))
	require.Empty(t, fairdraw.Receipt{EventID: "no event"}.Sign(keys, keys.Current()))
}

func TestForgedReceiptsAreRefused(t *testing.T) {
	t.Parallel()
	keys := signingKeys(t, 1)
	receipt := fairdraw.Receipt{EventID: "promo-1", RequestID: requestID(1), At: cutoff.UnixMilli(), Commitment: fairdraw.Hash{9}}.Sign(keys, "draw-1")
	b, err := base64.RawURLEncoding.DecodeString(receipt)
	require.NoError(t, err)
	refused := func(s string, why ...any) {
		t.Helper()
		_, err := fairdraw.OpenReceipt(keys.Public("draw-1"), s)
		require.ErrorIs(t, err, fairdraw.ErrReceipt, why...)
	}
	for i := range b {
		forged := append([]byte(nil), b...)
		forged[i] ^= 1
		refused(base64.RawURLEncoding.EncodeToString(forged), "byte %d", i)
		refused(base64.RawURLEncoding.EncodeToString(b[:i]), "cut to %d", i)
	}
	for _, s := range []string{"", "!", receipt + "A", receipt + "=", receipt + "\n", receipt[:9] + "\n" + receipt[9:]} {
		refused(s, s)
	}
	_, err = fairdraw.OpenReceipt(signingKeys(t, 2).Public("draw-1"), receipt)
	require.ErrorIs(t, err, fairdraw.ErrReceipt, "another key")
	d := newDraw(t, fairdraw.AlgorithmDraw, nil)
	body := string(b[:len(b)-64])
	signed, err := fairdraw.SignStatement(d.keys, &d.commitment, []byte(body))
	require.NoError(t, err)
	signature, err := hex.DecodeString(signed.Signature)
	require.NoError(t, err)
	refused(base64.RawURLEncoding.EncodeToString(append([]byte(body), signature...)), "the signature of a statement")
}
