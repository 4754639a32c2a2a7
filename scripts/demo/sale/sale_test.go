package sale

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStoresMustBeConfiguredTogether(t *testing.T) {
	t.Parallel()
	remote := Config{
		Visitors: 1, Seats: 1, URL: "https://tickets.test", TicketDatabase: "t", PaymentDatabase: "p", StatsDatabase: "s",
		RedisAddrs: []string{"r"}, KafkaBrokers: []string{"k"}, SandboxURL: "u",
	}
	require.NoError(t, remote.Validate())
	require.False(t, remote.withoutStores())

	some := remote
	some.KafkaBrokers = nil
	require.ErrorContains(t, some.Validate(), "KAFKA_BROKERS: missing beside TICKET_DATABASE_URL")
	local := remote
	local.URL = ""
	require.ErrorContains(t, local.Validate(), "they go with URL")

	none := Config{Visitors: 1, Seats: 1, URL: "https://tickets.test"}
	require.NoError(t, none.Validate())
	require.True(t, none.withoutStores())
	none.Break = "oversold"
	require.ErrorContains(t, none.Validate(), "BREAK")
	ownCheckout := Config{Visitors: 1, Seats: 1}
	require.NoError(t, ownCheckout.Validate())
	require.False(t, ownCheckout.withoutStores())
}

func TestEventIDsOfDemosAreUnique(t *testing.T) {
	t.Parallel()
	first, second := Config{Seed: 1}, Config{Seed: 2}
	require.NotEqual(t, first.sale().EventID, second.sale().EventID)
	require.Regexp(t, `^[A-Za-z0-9_-]{1,64}$`, first.sale().EventID)
}
