import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;

/** The trust store of this virtual machine, as `keytool -importcert` makes it: it holds one authority. */
final class Trust {
    private static final String PASSWORD = "changeit";

    private Trust() { }

    /** Make the SDKs trust this authority. Must run before the first of them asks for a TLS context. */
    static void install(Path authority) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (InputStream certificate = Files.newInputStream(authority)) {
            store.setCertificateEntry("tandem", CertificateFactory.getInstance("X.509").generateCertificate(certificate));
        }
        Path file = Files.createTempFile("trust", ".p12");
        file.toFile().deleteOnExit();
        try (OutputStream output = Files.newOutputStream(file)) {
            store.store(output, PASSWORD.toCharArray());
        }
        System.setProperty("javax.net.ssl.trustStore", file.toString());
        System.setProperty("javax.net.ssl.trustStorePassword", PASSWORD);
    }
}
