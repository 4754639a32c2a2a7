package app_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/charttest"
	"urr.guru/services/gateway/internal/app"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
)

// The settings in the Helm chart are those that the gateway reads.
func TestChartForDevelopment(t *testing.T) {
	t.Parallel()
	dev := charttest.DevelopmentConfig[app.Config](t, "gateway")
	require.True(t, dev.DevLogin)
	require.False(t, dev.SecureCookies)
	for name, addr := range map[string]string{
		"vwr": dev.VWR.Addr, "queue": dev.Queue.Addr, "ticket": dev.Ticket.Addr, "payment": dev.Payment.Addr, "stats": dev.Stats.Addr,
		"reward": dev.Reward.Addr, "ingest": dev.Ingest.Addr, "worker": dev.Worker.Addr,
	} {
		require.Equal(t, "dns:///urr-"+name+"-headless:9000", addr)
	}
	require.Equal(t, 1_000_000, dev.Limits.Keys)
	require.Equal(t, 300_000, dev.TokenCache)
}

func TestChartForProduction(t *testing.T) {
	t.Parallel()
	prod := charttest.ProductionConfig[app.Config](t, "gateway",
		"--set", "rpc.calls.vwr.address=none", "--set", "rpc.calls.reward.address=none", "--set", "rpc.calls.ingest.address=none", "--set", "rpc.calls.worker.address=none",
		"--set", "kafka.brokers={k1:9092},kafka.sasl=AWS_MSK_IAM", "--set", "redis.addresses={cache.example:6379}", "--set", "redis.cluster=true", "--set", "secrets.VWR_TOKEN_SECRET.name=", "--set", "secrets.VWR_TICKET_SECRET.name=",
		"--set", "config.TRUSTED_PROXIES={10.0.0.0/8,fd00::/8}", "--set", "secrets.CLOUDFRONT_SECRET.name=cdn",
		"--set", "config.OIDC_ISSUER=https://accounts.example", "--set", "config.OIDC_CLIENT_ID=urr", "--set", "config.PUBLIC_URL=https://tickets.example",
		"--set", "secrets.OIDC_CLIENT_SECRET.name=oidc", "--set", "config.LIMIT_REDIS_ADDRS={limits.example:6379}")
	confirm := paymentv1.File_urr_payment_v1_payment_proto.Services().ByName("PaymentService").Methods().ByName("Confirm")
	option, ok := proto.GetExtension(confirm.Options(), commonv1.E_Edge).(*commonv1.Edge)
	require.True(t, ok)
	require.Greater(t, prod.ShutdownTimeout/2, option.GetTimeout().AsDuration(), "the share of requests in progress at the end of the drain")
	require.Equal(t, "stats:9000", prod.Stats.Addr)
	require.Empty(t, prod.VWR.Addr, "tier 2 alone")
	require.Empty(t, prod.VWRTokenSecret)
	require.Empty(t, prod.Reward.Addr, "no rewards")
	require.Empty(t, prod.Ingest.Addr, "no promotions")
	require.NotEmpty(t, prod.CloudFrontSecret)
	require.NotEmpty(t, prod.OIDC.ClientSecret)
	require.Equal(t, "https://accounts.example", prod.OIDC.Issuer)
	require.Equal(t, []string{"profile"}, prod.OIDC.Scopes)
	require.True(t, prod.SecureCookies)
	require.True(t, prod.Redis.Cluster)
	require.Equal(t, []string{"limits.example:6379"}, prod.Limits.RedisAddrs)
	require.False(t, prod.Limits.RedisCluster)
	require.Equal(t, []string{"k1:9092"}, prod.Kafka.Brokers)
	require.Equal(t, []string{"10.0.0.0/8", "fd00::/8"}, prod.TrustedProxies)
}

// The chart gives the room's pods what they read, and nothing else.
func TestChartForRooms(t *testing.T) {
	t.Parallel()
	args := []string{"--set", "room.enabled=true", "--set", "redis.username=shop", "--set", "room.redis.username=room", "--set", "room.redis.passwordSecret=rooms"}
	room := charttest.PartConfig[app.RoomConfig](t, "gateway", "room", append([]string{
		"--set", "kafka.brokers={k1:9092},kafka.sasl=AWS_MSK_IAM", "--set", "redis.addresses={cache.example:6379}", "--set", "config.OIDC_ISSUER=https://accounts.example",
		"--set", "config.OIDC_CLIENT_ID=urr", "--set", "config.PUBLIC_URL=https://tickets.example", "--set", "config.LIMIT_KEYS=5000000",
	}, args...)...)
	require.Equal(t, "room", room.Redis.Username)
	require.Equal(t, "vwr:9000", room.VWR.Addr)
	require.Equal(t, 5_000_000, room.Limits.Keys)
	require.NotEmpty(t, room.VisitorSecret)
}
