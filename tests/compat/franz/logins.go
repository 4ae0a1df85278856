package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// How a listener with TLS and logins is reached.
type securing struct {
	Word     string `json:"word"`
	Security struct {
		Protocol        string `json:"protocol"`
		Mechanism       string `json:"mechanism"`
		Username        string `json:"username"`
		Password        string `json:"password"`
		Token           string `json:"token"`
		CaFile          string `json:"ca_file"`
		CertificateFile string `json:"certificate_file"`
		KeyFile         string `json:"key_file"`
	} `json:"security"`
}

// One record is produced, by a mechanism, over a protocol.
func logIn(ctx context.Context, q *question) (any, error) {
	options := []kgo.Opt{kgo.RequestRetries(0), kgo.RecordRetries(1), kgo.RecordPartitioner(kgo.ManualPartitioner())}
	if strings.HasSuffix(q.Security.Protocol, "SSL") {
		config, err := q.tls()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if strings.HasPrefix(q.Security.Protocol, "SASL") {
		options = append(options, kgo.SASL(q.mechanism()))
	}
	client, err := newClient(q.Bootstrap, options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return nil, err
	}
	result := client.ProduceSync(ctx, &kgo.Record{Topic: q.Topic, Value: []byte(q.Word)})
	record, err := result.First()
	if err != nil {
		return nil, err
	}
	return record.Offset, nil
}

func (q *question) tls() (*tls.Config, error) {
	authority, err := os.ReadFile(q.Security.CaFile)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("no certificate in %s", q.Security.CaFile)
	}
	if q.Security.CertificateFile != "" {
		own, err := tls.LoadX509KeyPair(q.Security.CertificateFile, q.Security.KeyFile)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

func (q *question) mechanism() sasl.Mechanism {
	who := scram.Auth{User: q.Security.Username, Pass: q.Security.Password}
	switch q.Security.Mechanism {
	case "SCRAM-SHA-256":
		return who.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return who.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: q.Security.Token}.AsMechanism()
	default:
		return plain.Auth{User: who.User, Pass: who.Pass}.AsMechanism()
	}
}
